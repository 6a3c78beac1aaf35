const kibibyte = 1024;
/** The kernel ends the program before instances, which have 0, and before the agent, whose value it would inherit. */
const oomScoreAdj = 500;

/**
 * A constant: the values are parameters of the shell. What cannot be set is left, as the program may run in a container
 * or below a lower bound. `-d` also counts memory that a program maps for itself, but not files that it maps to read.
 */
const script = `echo ${oomScoreAdj} 2>/dev/null >/proc/self/oom_score_adj || :
ulimit -d "$1" 2>/dev/null || :
shift
exec "$@"`;

/** How a program is started whose memory is bounded, as are its children, each by itself. */
export function bounded(
  program: string,
  args: readonly string[],
  maxMemoryBytes: number,
): { shell: string; args: string[] } {
  return { shell: 'sh', args: ['-c', script, 'sh', String(Math.floor(maxMemoryBytes / kibibyte)), program, ...args] };
}
