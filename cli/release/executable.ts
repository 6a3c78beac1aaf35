import { chmod, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from '../../agent/machine/process.ts';

const maxOutputBytes = 1024 * 1024;

/**
 * What the program runs with, as `cli/setpoint` starts an agent. The authorities that the machine trusts are trusted,
 * too: what fetched the executable trusted them.
 */
const execArgv = [
  '--disable-warning=ExperimentalWarning',
  '--max-semi-space-size=1',
  '--v8-pool-size=1',
  '--use-system-ca',
];

/**
 * Makes one executable of a Node and the text of a module. The same two give the same bytes: the paths in it are
 * relative, and it has no compiled code, which would fit one processor only. `work`: a folder of the caller.
 * @throws Error if Node cannot make it
 */
export async function makeExecutable(
  { node, module, work, to }: { node: string; module: string; work: string; to: string },
  signal: AbortSignal,
): Promise<void> {
  await writeFile(join(work, 'agent.mjs'), module);
  const settings = {
    main: 'agent.mjs',
    mainFormat: 'module',
    executable: node,
    output: 'agent',
    disableExperimentalSEAWarning: true,
    execArgv,
    execArgvExtension: 'none',
  };
  await writeFile(join(work, 'agent.json'), JSON.stringify(settings));
  const options = { args: ['--build-sea', 'agent.json'], cwd: work, maxOutputBytes };
  const { code, stderr } = await run(process.execPath, options, signal);
  if (code !== 0) throw new Error(`Node cannot make the executable ${to}: ${stderr.trim()}`);
  await chmod(join(work, 'agent'), 0o755);
  await rename(join(work, 'agent'), to);
}
