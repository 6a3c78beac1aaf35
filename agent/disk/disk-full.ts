export function isDiskFull(error: unknown): boolean {
  return error instanceof Error && ((error as NodeJS.ErrnoException).code === 'ENOSPC' || isDiskFull(error.cause)); // errors of node:fs have a code
}
