/** Why something did not work, as the reader is told it. */
export interface Refusal {
  readonly message: string;
  readonly requestId?: string | undefined;
  /** What was asked for is not there, or not for this reader. */
  readonly isMissing?: boolean | undefined;
  /** What is wrong with which field. */
  readonly details?: readonly { readonly field: string; readonly message: string }[] | undefined;
}

/** What an error says, with the fields of a refusal by the API where it has them. */
export function refusalOf(error: unknown): Refusal {
  if (!(error instanceof Error)) return { message: String(error) };
  const { message } = error;
  return {
    message: error.name === 'TimeoutError' ? 'The server did not answer in time: try again' : readable(message),
    ...('status' in error && error.status === 404 && { isMissing: true }),
    ...('requestId' in error && typeof error.requestId === 'string' && { requestId: error.requestId }),
    ...('details' in error && Array.isArray(error.details) && { details: error.details.filter(isDetail) }),
  };
}

function readable(message: string): string {
  return message === 'Failed to fetch' ? 'The server cannot be reached: is the connection up?' : message;
}

function isDetail(it: unknown): it is { field: string; message: string } {
  return (
    typeof it === 'object' &&
    it !== null &&
    'field' in it &&
    typeof it.field === 'string' &&
    'message' in it &&
    typeof it.message === 'string'
  );
}
