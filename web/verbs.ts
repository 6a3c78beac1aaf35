import { applicationVerbs } from '#rules/application.ts';
import { whyNot } from '#rules/verb-table.ts';
import type { Application } from './model.ts';

type Verb = keyof typeof applicationVerbs.verbs;

/** The verbs that have a button. */
const offered = ['deploy', 'start', 'stop', 'restart', 'rollback'] as const satisfies readonly Verb[];

/** The buttons of an application; `reason`: why one of them is disabled. The API judges by the same table. */
export function buttonsOf(it: Application): { verb: (typeof offered)[number]; label: string; reason?: string }[] {
  return offered.map((verb) => {
    const reason = whyNot(applicationVerbs, verb, it);
    return { verb, label: applicationVerbs.verbs[verb].label, ...(reason !== undefined && { reason }) };
  });
}
