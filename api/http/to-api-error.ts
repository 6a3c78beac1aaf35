import { conflictReason, isConflict, isFull, isTooLarge, isUnavailable, mayBeWritten } from '../../store/errors.ts';
import { isHostScope } from '../../store/kinds/application.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import {
  afterCommit,
  agentAway,
  ApiError,
  badRequest,
  conflicting,
  serviceUnavailable,
  storeFull,
} from '../ground/api-error.ts';

/** The error that the client gets. Returns `undefined` for a bug, whose details it must not get. */
export function toApiError(error: unknown): ApiError | undefined {
  if (error instanceof ApiError) return error;
  if (isConflict(error)) return conflictError(error);
  if (isUnavailable(error)) {
    const outcome = mayBeWritten(error) ? 'outcome_unknown' : 'not_written';
    if (isFull(error)) return storeFull(outcome, error);
    return serviceUnavailable('The store does not answer', { outcome, cause: error });
  }
  if (isTooLarge(error))
    return badRequest(
      'The change would be too large to be stored at once: shorten its texts and lists, and mount volumes a few at a time',
    );
  if (error instanceof CallError) return callError(error);
  return undefined;
}

/** Runs what follows a commit of the same request: a 503 from it is marked as `partly_written`. */
export async function afterWriting<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    throw afterCommit(toApiError(error) ?? error);
  }
}

/** Whether a new attempt, which reads and decides again, may succeed. */
export function isWorthRetrying(error: unknown): boolean {
  const reason = isConflict(error) ? conflictReason(error) : undefined;
  // a DNS name is checked, or another one chosen, by what the next attempt reads
  return isConflict(error) && (reason?.why !== 'name-taken' || isHostScope(reason.scope));
}

function conflictError(error: unknown): ApiError {
  const reason = conflictReason(error);
  if (reason?.why !== 'name-taken')
    return conflicting('Another request changed the object meanwhile: read it, and repeat the change');
  const { kind, name } = reason;
  const message = takenMessage(kind, name);
  return conflicting(message, [{ field: nameFields[kind] ?? 'name', reason: 'taken', message }]);
}

/** The unique field of kinds that have no name. */
const nameFields: Partial<Record<KindName, string>> = { user: 'email', member: 'user_id', invite: 'email' };

function takenMessage(kind: KindName, name: string): string {
  if (kind === 'member') return `The user has a role in the project already: ${name}`;
  if (kind === 'invite') return `An invite to this address is pending: ${name}`;
  return `Another ${kind.replaceAll('_', ' ')} has this name: ${name}`;
}

function callError(error: CallError): ApiError {
  switch (error.code) {
    case 'away':
      return agentAway(error);
    case 'timeout':
      return serviceUnavailable('The agent of the server did not answer in time', { cause: error });
    case 'too_many':
      return serviceUnavailable('The agent of the server is busy', { cause: error });
    default:
      return conflicting(error.message, [{ field: '', reason: error.code, message: error.message }]);
  }
}
