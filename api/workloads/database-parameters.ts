import type { Engine } from '../../databases/engine.ts';
import { engines } from '../../databases/engines.ts';
import { faultOf, memoryFault } from '../../databases/parameters.ts';
import type { Parameters as Known } from '../../databases/parameters.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { parseMemory } from '../../store/kinds/quantity.ts';
import { badField } from '../ground/api-error.ts';

type Parameters = DesiredOf<'database'>['parameters'];

/**
 * The parameters of a database after a change: `null` takes one back, or all of them.
 *
 * @throws ApiError BAD_REQUEST naming the parameter that its engine does not know or whose value it does not take
 */
export function changedParameters(
  type: Engine['type'],
  present: Parameters,
  change: Readonly<Record<string, string | null>> | null,
): Parameters {
  const known: Known = engines[type].settings?.known ?? {};
  const after: Record<string, string> = change === null ? {} : { ...present };
  for (const [name, value] of Object.entries(change ?? {})) {
    const parameter = Object.hasOwn(known, name) ? known[name] : undefined;
    if (parameter === undefined) throw badField(`parameters.${name}`, 'unknown', unknown(engines[type]));
    const fault = value === null ? undefined : faultOf(parameter, value);
    if (fault !== undefined) throw badField(`parameters.${name}`, 'invalid', fault);
    if (value === null) delete after[name];
    else after[name] = value;
  }
  const names = Object.keys(after).toSorted();
  return names.length === 0 ? undefined : Object.fromEntries(names.map((name) => [name, after[name] ?? '']));
}

/** Those of the parameters that this release takes: what a backup names may be of another one. */
export function takenParameters(type: Engine['type'], parameters: Parameters): Record<string, string> {
  const known: Known = engines[type].settings?.known ?? {};
  const isTaken = ([name, value]: [string, string]): boolean => {
    const parameter = Object.hasOwn(known, name) ? known[name] : undefined;
    return parameter !== undefined && faultOf(parameter, value) === undefined;
  };
  return Object.fromEntries(Object.entries(parameters ?? {}).filter(isTaken));
}

function unknown({ word, settings }: Engine): string {
  if (settings === undefined) return `The parameters of ${word} cannot be changed yet`;
  return `Must be a parameter of ${word} that can be changed: ${Object.keys(settings.known).join(', ')}`;
}

/** @throws ApiError BAD_REQUEST if parameters reserve more memory than the database has */
export function requireMemory({ type, parameters = {}, memory_limit }: Wanted): void {
  const limit = memory_limit === undefined ? undefined : parseMemory(memory_limit);
  const known = engines[type].settings?.known;
  if (known === undefined || limit === undefined || !('bytes' in limit)) return;
  const lack = memoryFault(known, parameters, limit.bytes);
  if (lack !== undefined) throw badField(`parameters.${lack.name}`, 'too_large', lack.fault);
}

interface Wanted {
  type: Engine['type'];
  parameters?: Readonly<Record<string, string>> | undefined;
  memory_limit?: string | undefined;
}
