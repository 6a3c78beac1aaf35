/** What to do where the agent may not use a folder of its engine, by the code of the call that failed. */
export function folderAdvice(code: string | undefined): string {
  return code === 'EROFS'
    ? 'Its disk is mounted read-only, or systemd keeps the agent from writing there: install the agent again, which brings its present unit'
    : 'Run the agent as root, beside its engine';
}
