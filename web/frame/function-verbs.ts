import { functionVerbs } from '#rules/function.ts';
import { whyNot } from '#rules/verb-table.ts';
import { call } from '../api.ts';
import type { ObjectOf } from '../model.ts';
import { useConsole } from './context.ts';
import type { Console } from './context.ts';
import type { Rank } from './rights.ts';
import { whyBelow } from './rights.ts';

type Fn = ObjectOf<'function'>;

/** Verbs of a function that need nothing but a click. */
export const simpleFunctionVerbs = ['deploy', 'start', 'stop'] as const;
export type SimpleFunctionVerb = (typeof simpleFunctionVerbs)[number];
type AnyVerb = keyof typeof functionVerbs.verbs;

/** Why a verb is not offered: its state first, by the table that the API refuses by, then the role of the reader. */
export function whyNotFunctionVerb(verb: AnyVerb, it: Fn, rank: Rank | undefined): string | undefined {
  return whyNot(functionVerbs, verb, it) ?? whyBelow(rank, 'member');
}

export function labelOfFunctionVerb(verb: AnyVerb): string {
  return functionVerbs.verbs[verb].label;
}

/** Does a verb; the page then shows the state of the answer. @throws Refused; Error if there is no answer */
export async function doFunctionVerb({ login, store }: Console, verb: SimpleFunctionVerb, { id }: Fn): Promise<void> {
  await store.answer('function', () => call(login, 'POST', `/api/v1/functions/{id}/${verb}`, { path: { id } }));
}

/** Does a verb of which there is no page to show the refusal on. */
export function useFunctionVerb(): (verb: SimpleFunctionVerb, it: Fn) => Promise<void> {
  const it = useConsole();
  return async (verb, fn) => {
    try {
      await doFunctionVerb(it, verb, fn);
      it.messages.say(`${labelOfFunctionVerb(verb)}: ${fn.name} is on its way`);
    } catch (failure) {
      it.messages.say(failure instanceof Error ? failure.message : String(failure), 'bad');
    }
  };
}
