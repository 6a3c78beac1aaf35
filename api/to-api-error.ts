import { conflictReason, isConflict, isTooLarge, isUnavailable } from '../store/errors.ts';
import { CallError } from '../agent-protocol/call-error.ts';
import { ApiError, badRequest, conflicting, serviceUnavailable } from './api-error.ts';

/** What a client is told of an error. `undefined`: a bug, of which it is told nothing. */
export function toApiError(error: unknown): ApiError | undefined {
  if (error instanceof ApiError) return error;
  if (isConflict(error)) return conflictError(error);
  if (isUnavailable(error))
    return serviceUnavailable('The store does not answer; whether it was written is unknown', error);
  if (isTooLarge(error)) return badRequest('The object would be too large to be stored');
  if (error instanceof CallError) return callError(error);
  return undefined;
}

/** Whether reading again and deciding again may help. */
export function isWorthRetrying(error: unknown): boolean {
  return isConflict(error) && conflictReason(error)?.why !== 'name-taken';
}

function conflictError(error: unknown): ApiError {
  const reason = conflictReason(error);
  if (reason?.why !== 'name-taken') return conflicting('The object was changed by somebody else meanwhile');
  const message = `Another ${reason.kind.replaceAll('_', ' ')} has this name: ${reason.name}`;
  return conflicting(message, [{ field: reason.kind === 'user' ? 'email' : 'name', reason: 'taken', message }]);
}

function callError(error: CallError): ApiError {
  switch (error.code) {
    case 'away':
      return serviceUnavailable('The agent of the server is not connected', error);
    case 'timeout':
      return serviceUnavailable('The agent of the server did not answer in time', error);
    case 'too_many':
      return serviceUnavailable('The agent of the server is busy', error);
    default:
      return conflicting(error.message, [{ field: '', reason: error.code, message: error.message }]);
  }
}
