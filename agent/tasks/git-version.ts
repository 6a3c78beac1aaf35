import { run } from '../machine/process.ts';

/** Version of the git of this machine. */
export interface GitVersion {
  major: number;
  minor: number;
  /** As git writes it. */
  text: string;
}

/** Reads the version; `undefined`: no git can be started. */
export type ReadGitVersion = (signal: AbortSignal) => Promise<GitVersion | undefined>;

/** The release of git that brought `http.curloptResolve`. An earlier one ignores it, as every setting it does not know. */
export const firstThatPins = '2.37';
const maxOutputBytes = 4096;

export const gitVersion: ReadGitVersion = async (signal) => {
  try {
    const { code, stdout } = await run('git', { args: ['--version'], maxOutputBytes }, signal);
    return code === 0 ? parseGitVersion(stdout) : undefined;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined; // there is no git
    throw error;
  }
};

export function parseGitVersion(output: string): GitVersion | undefined {
  const found = /^git version ((\d+)\.(\d+)\S*)/.exec(output);
  if (found === null) return undefined;
  const [, text = '', major, minor] = found;
  return { major: Number(major), minor: Number(minor), text };
}

/** True if git connects to the address that it is given for a host of https, whatever the name leads to by then. */
export function pinsAddresses({ major, minor }: GitVersion): boolean {
  return major > 2 || (major === 2 && minor >= 37);
}
