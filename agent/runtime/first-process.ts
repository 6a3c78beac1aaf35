import { basename } from 'node:path';

/** Programs that are made to be the first process of a container: below another one, some of them refuse to run. */
const firstProcesses = new Set([
  'catatonit',
  'docker-init',
  'dumb-init',
  'init',
  'my_init',
  'runit-init',
  'runsvdir',
  's6-svscan',
  'systemd',
  'tini',
  'tini-static',
]);

/** Whether a program reaps by itself what its processes leave. `words`: the program and its arguments. */
export function isFirstProcess([program = '']: readonly string[]): boolean {
  return firstProcesses.has(basename(program));
}

/** What the engine's own first process (tini) writes where it cannot start the program. */
const refusal = /\[FATAL tini \(\d+\)\] exec (.+) failed: (.+)/;

/** Why the engine's own first process did not start the program, by the last lines of its output; `undefined`: it did. */
export function unstarted(lines: string): string | undefined {
  const [, program, why] = refusal.exec(lines) ?? [];
  if (program === undefined || why === undefined) return undefined;
  const reason = why.trim().toLowerCase();
  const isSought = !program.includes('/') && reason === 'no such file or directory';
  return `exec ${program}: ${isSought ? 'executable file not found in $PATH' : reason}`;
}
