import { databaseVerbs } from '#rules/database.ts';
import { whyNot } from '#rules/verb-table.ts';
import { call } from '../api.ts';
import type { ObjectOf } from '../model.ts';
import { useConsole } from './context.ts';
import type { Console } from './context.ts';
import type { Rank } from './rights.ts';
import { whyBelow } from './rights.ts';

type Database = ObjectOf<'database'>;

/** Verbs of a database that need nothing but a click. */
export const simpleDatabaseVerbs = ['start', 'stop', 'restart'] as const;
export type SimpleDatabaseVerb = (typeof simpleDatabaseVerbs)[number];
type AnyVerb = keyof typeof databaseVerbs.verbs;

/** Verbs that replace or remove data: those of admins of the project. */
const ofAdmins: ReadonlySet<AnyVerb> = new Set([
  'restore',
  'import',
  'import_file',
  'recover',
  'clone',
  'switch',
  'delete',
]);

/** Why a verb is not offered: its state first, by the table that the API refuses by, then the role of the reader. */
export function whyNotDatabaseVerb(verb: AnyVerb, it: Database, rank: Rank | undefined): string | undefined {
  return whyNot(databaseVerbs, verb, it) ?? whyBelow(rank, ofAdmins.has(verb) ? 'admin' : 'member');
}

export function labelOfDatabaseVerb(verb: AnyVerb): string {
  return databaseVerbs.verbs[verb].label;
}

/** Does a verb; the page then shows the state of the answer. @throws Refused; Error if there is no answer */
export async function doDatabaseVerb(
  { login, store }: Console,
  verb: SimpleDatabaseVerb,
  { id }: Database,
): Promise<void> {
  await store.answer('database', () => call(login, 'POST', `/api/v1/databases/{id}/${verb}`, { path: { id } }));
}

/** Does a verb of which there is no page to show the refusal on. */
export function useDatabaseVerb(): (verb: SimpleDatabaseVerb, it: Database) => Promise<void> {
  const it = useConsole();
  return async (verb, database) => {
    try {
      await doDatabaseVerb(it, verb, database);
      it.messages.say(`${labelOfDatabaseVerb(verb)}: ${database.name} is on its way`);
    } catch (failure) {
      it.messages.say(failure instanceof Error ? failure.message : String(failure), 'bad');
    }
  };
}
