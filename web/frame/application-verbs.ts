import { applicationVerbs } from '#rules/application.ts';
import { whyNot } from '#rules/verb-table.ts';
import { call } from '../api.ts';
import type { Application } from '../model.ts';
import { useConsole } from './context.ts';
import type { Console } from './context.ts';
import type { Rank } from './rights.ts';
import { whyBelow } from './rights.ts';

/** Verbs of an application that need nothing but a click. */
export const simpleVerbs = ['deploy', 'start', 'stop', 'restart'] as const;
export type SimpleVerb = (typeof simpleVerbs)[number];
type AnyVerb = keyof typeof applicationVerbs.verbs;

/** Why a verb is not offered: its state first, by the table that the API refuses by, then the role of the reader. */
export function whyNotVerb(verb: AnyVerb, it: Application, rank: Rank | undefined): string | undefined {
  return whyNot(applicationVerbs, verb, it) ?? whyBelow(rank, 'member');
}

export function labelOf(verb: AnyVerb): string {
  return applicationVerbs.verbs[verb].label;
}

/** Does a verb; the page then shows the state of the answer. @throws Refused; Error if there is no answer */
export async function doVerb({ login, store }: Console, verb: SimpleVerb, it: Application): Promise<void> {
  const path = { id: it.id };
  if (verb === 'deploy') {
    await store.answer('deployment', () => call(login, 'POST', '/api/v1/applications/{id}/deploy', { path }));
    return;
  }
  await store.answer('application', () => call(login, 'POST', `/api/v1/applications/{id}/${verb}`, { path }));
}

/** Does a verb of which there is no page to show the refusal on. */
export function useVerb(): (verb: SimpleVerb, it: Application) => Promise<void> {
  const it = useConsole();
  return async (verb, application) => {
    try {
      await doVerb(it, verb, application);
      it.messages.say(`${labelOf(verb)}: ${application.name} is on its way`);
    } catch (failure) {
      it.messages.say(failure instanceof Error ? failure.message : String(failure), 'bad');
    }
  };
}
