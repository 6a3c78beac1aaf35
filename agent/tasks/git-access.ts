import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { GitCredential } from '../../agent-protocol/git-credential.ts';
import { invalid } from './git-failure.ts';
import type { ParsedGitUrl } from './git-source.ts';
import { hostAlias, type SshAccess } from './git-ssh.ts';
import type { WorkFolder } from './work-folder.ts';

/** What git gets to read a repository that is not public. Its disposal removes the files. */
export interface GitAccess extends AsyncDisposable {
  /** Variables of git's environment. */
  env: Readonly<Record<string, string>>;
  ssh?: SshAccess;
}

/** For repositories that everybody reads. */
const open: GitAccess = { env: {}, [Symbol.asyncDispose]: () => Promise.resolve() };

const defaultPorts = { https: 443, ssh: 22 } as const;
const protocolOf = { token: 'https', ssh: 'ssh' } as const;

/** True if the repository is at the host and port of the credential, and read by its protocol. */
export function isForHost(credential: GitCredential, source: ParsedGitUrl): boolean {
  const protocol = protocolOf[credential.type];
  return source.protocol === protocol && credential.host === hostOf(source, defaultPorts[protocol]);
}

/**
 * Prepares a credential for git. A token is a variable of git's environment, bound to the origin of the repository, so
 * that git sends it to no other host; a key lies in a file that only the agent reads, until the disposal.
 *
 * @throws RuntimeFailure `invalid_source` if the credential is of another host or protocol than the repository
 */
export async function gitAccess(
  source: ParsedGitUrl,
  credential: GitCredential | undefined,
  folder: WorkFolder | undefined,
): Promise<GitAccess> {
  if (credential === undefined) return open;
  const { protocol, url } = source;
  if (protocolOf[credential.type] !== protocol)
    throw invalid(
      `The git credential is for ${protocolOf[credential.type]}: repository ${url} is read by ${protocol}, where it is not sent`,
    );
  if (!isForHost(credential, source))
    throw invalid(`The git credential is for ${credential.host}: it is not sent to the host of repository ${url}`);
  if (credential.type === 'token' && credential.ca_certificate === undefined)
    return { ...open, env: configured(tokenSettings(credential)) };
  if (folder === undefined) throw invalid(`This agent has no folder for the files of the git credential of ${url}`);
  await using files = new AsyncDisposableStack();
  const { path } = files.use(await folder.make());
  const write = async (name: string, text: string): Promise<string> => {
    await writeFile(join(path, name), text, { mode: 0o600 });
    return join(path, name);
  };
  const env: Record<string, string> = {};
  let ssh: SshAccess | undefined;
  if (credential.type === 'ssh') {
    const alias = hostAlias(source);
    ssh = {
      key: await write('key', `${credential.private_key.trim()}\n`),
      knownHosts: await write('known_hosts', credential.host_keys.map((key) => `${alias} ${key}\n`).join('')),
    };
  } else {
    const authority = await write('authority.pem', credential.ca_certificate ?? '');
    Object.assign(
      env,
      configured([...tokenSettings(credential), [`http.https://${credential.host}/.sslCAInfo`, authority]]),
    );
  }
  const all = files.move();
  return { env, ...(ssh !== undefined && { ssh }), [Symbol.asyncDispose]: () => all.disposeAsync() };
}

type Setting = readonly [name: string, value: string];

/** Git sends the header to this origin only. */
function tokenSettings({ host, username, token }: Extract<GitCredential, { type: 'token' }>): Setting[] {
  const basic = Buffer.from(`${username}:${token}`).toString('base64');
  return [[`http.https://${host}/.extraHeader`, `Authorization: Basic ${basic}`]];
}

/** Settings of git as variables of its environment: arguments can be read by every user of the machine. */
function configured(settings: readonly Setting[]): Record<string, string> {
  const pairs = settings.flatMap(([name, value], at) => [
    [`GIT_CONFIG_KEY_${at}`, name],
    [`GIT_CONFIG_VALUE_${at}`, value],
  ]);
  return { GIT_CONFIG_COUNT: String(settings.length), ...Object.fromEntries(pairs) };
}

function hostOf({ host, port }: ParsedGitUrl, defaultPort: number): string {
  const name = host.toLowerCase();
  return port === 0 || port === defaultPort ? name : `${name}:${port}`;
}
