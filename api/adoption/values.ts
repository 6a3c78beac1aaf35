import { answerOf } from '../../agent-protocol/answer.ts';
import { SurveyedValues, valuesLimits } from '../../agent-protocol/survey.ts';
import { parseWritten } from '../../store/faults.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { EnvValues } from '../resources/fields.ts';
import type { Obstacle, WantedApplication } from './wanted.ts';

type Values = Readonly<Record<string, string>>;

/** Longer than the agent takes at most. */
const askMs = 15_000;

/**
 * The values of the variables of what is to be taken over, from the agent. They are secrets: no error, log line or answer
 * may have one. @throws CallError
 */
export async function valuesOf(
  ctx: Pick<RequestContext, 'agents' | 'tenant' | 'signal'>,
  server: string,
  wanted: readonly WantedApplication[],
): Promise<{ values: ReadonlyMap<WantedApplication, Values>; obstacles: Obstacle[] }> {
  const asked = wanted.filter(({ unit }) => unit.first.env.length > 0);
  const ids = asked.map(({ unit }) => unit.first.id);
  const found = ids.length === 0 ? [] : await ask(ctx, server, ids);
  const values = new Map<WantedApplication, Values>();
  const obstacles: Obstacle[] = [];
  for (const one of wanted) {
    const { id, name: container } = one.unit.first;
    const refuse = (code: string, message: string): void =>
      void obstacles.push({ name: one.planned.entry.name, code, message });
    if (!asked.includes(one)) {
      values.set(one, {});
      continue;
    }
    const told = found.find((it) => it.id === id);
    if (told === undefined) refuse('unknown', `Container ${container} is gone: look again`);
    else if (told.env === undefined)
      refuse(
        'too_large',
        `The answer of the server has no room for its variables, as all of them may have ${valuesLimits.bytes / 1024} KiB: take fewer at once, or move it by hand`,
      );
    else {
      const fault = faultOf(told.env, one.unit.first.env);
      if (fault === undefined) values.set(one, told.env);
      else refuse('variables', fault);
    }
  }
  return { values, obstacles };
}

async function ask(
  { agents, tenant, signal }: Pick<RequestContext, 'agents' | 'tenant' | 'signal'>,
  server: string,
  containers: string[],
): Promise<SurveyedValues['containers']> {
  const options = { timeoutMs: askMs, signal: signal() };
  // the error for another answer names what is wrong by paths and types, without values
  return answerOf(SurveyedValues, await agents.call(tenant, server, { method: 'survey.values', containers }, options))
    .containers;
}

/** Why an application cannot have these variables, without a value of any; `undefined`: it can. */
function faultOf(values: Values, names: readonly string[]): string | undefined {
  const unset = names.find((name) => !Object.hasOwn(values, name));
  if (unset !== undefined) return `It has variable ${unset} of its image removed, which an application cannot`;
  const [odd] = Object.entries(values).find(([, value]) => value.includes('\uFFFD')) ?? [];
  if (odd !== undefined) return `Its variable ${odd} has bytes that are no text: move it by hand`;
  const parsed = parseWritten(EnvValues, values, 'The set of them');
  if ('data' in parsed) return undefined;
  return `No application can have its variables: ${parsed.faults[0]?.message ?? 'they are not valid'}`;
}
