import { conflict } from './errors.ts';
import type { CommitFailure } from './errors.ts';
import type { Entry, Guard, TxnResult } from './store.ts';
import type { Revision } from './revision.ts';
import { isKindName } from './kinds/kinds.ts';
import { parseKey } from './keys.ts';

type Refused = Extract<TxnResult, { committed: false }>;

/** Several guards may have failed: the reason that can be retried least wins. */
export function describeFailure(result: Refused): CommitFailure {
  const failures = result.failed.map(({ guard, current }) => describe(guard, current));
  for (const why of ['key', 'exists', 'gone', 'name-taken', 'changed'] as const) {
    const found = failures.find((failure) => failure.why === why);
    if (found) return found;
  }
  throw new Error('Transaction was refused without a failed guard');
}

/** The revision of the commit. @throws conflict, whose reason `conflictReason` returns. */
export function committed(result: TxnResult): Revision {
  if (result.committed) return result.revision;
  const failure = describeFailure(result);
  throw conflict(sentence(failure), failure);
}

function describe(guard: Guard, current: Entry | undefined): CommitFailure {
  const meaning = parseKey(guard.key);
  if (meaning?.area === 'unique' && isKindName(meaning.kind) && guard.is === 'absent')
    return {
      why: 'name-taken',
      kind: meaning.kind,
      scope: meaning.scope,
      name: meaning.name,
      holder: current && holderOf(current.value),
    };
  if ((meaning?.area === 'desired' || meaning?.area === 'observed') && isKindName(meaning.kind)) {
    const ref = { kind: meaning.kind, id: meaning.id };
    if (meaning.area === 'observed') return { why: 'changed', ref };
    return { why: guard.is === 'absent' ? 'exists' : current ? 'changed' : 'gone', ref };
  }
  if (meaning?.area === 'population' && isKindName(meaning.kind))
    return { why: 'changed', ref: { kind: meaning.kind, id: meaning.id } };
  return { why: 'key', key: guard.key };
}

/** The id that a unique name's record points to. */
export function holderOf(value: string): string | undefined {
  const record: unknown = JSON.parse(value);
  return typeof record === 'object' && record !== null && 'id' in record && typeof record.id === 'string'
    ? record.id
    : undefined;
}

function sentence(failure: CommitFailure): string {
  switch (failure.why) {
    case 'exists':
      return `Cannot create ${failure.ref.kind} as it exists: ${failure.ref.id}`;
    case 'gone':
      return `Cannot write as the ${failure.ref.kind} is gone: ${failure.ref.id}`;
    case 'name-taken':
      return `Cannot use the name as another ${failure.kind} has it: ${failure.name}`;
    case 'changed':
      return `Cannot write as the ${failure.ref.kind} was changed meanwhile: ${failure.ref.id}`;
    case 'key':
      return `Cannot write as a guard failed: ${failure.key}`;
  }
}
