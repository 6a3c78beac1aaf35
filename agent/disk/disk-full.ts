/** True if the error, or a cause of it, means that the disk is full. */
export function isDiskFull(error: unknown): boolean {
  return error instanceof Error && ((error as NodeJS.ErrnoException).code === 'ENOSPC' || isDiskFull(error.cause)); // errors of node:fs have a code
}
