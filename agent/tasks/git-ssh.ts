import { run } from '../machine/process.ts';
import type { ParsedGitUrl } from './git-source.ts';

/** The address that a connection must use, so that the name cannot lead to another machine after it was checked. */
export interface SshPin {
  address: string;
  /** Name by which the key of the host is known. */
  alias: string;
}

/** Files by which ssh proves who reads, and knows the host. */
export interface SshAccess {
  key: string;
  knownHosts: string;
}

const maxOutputBytes = 256 * 1024;
const defaultPort = 22;

/**
 * Returns the environment variables by which git runs ssh. Without a configuration ssh has no key, and hosts are known
 * by the machine's own list. With one, it sets the keys and hosts; default keys of the process's user are never used.
 * `access` has a key of its own, and the only keys that the host may show: the configuration is not read.
 */
export function sshVariables(
  config: string | undefined,
  pin: SshPin | undefined,
  access?: SshAccess,
): Record<string, string> {
  const alone = ' -o IdentitiesOnly=yes -o IdentityAgent=none';
  const own =
    access !== undefined
      ? `${alone} -o StrictHostKeyChecking=yes -o GlobalKnownHostsFile=/dev/null -o "UserKnownHostsFile=$SETPOINT_SSH_KNOWN_HOSTS" -i "$SETPOINT_SSH_KEY"`
      : ` -o IdentityFile=none${config === undefined ? `${alone} -o UserKnownHostsFile=/dev/null` : ''}`;
  const pinned =
    pin === undefined
      ? ''
      : ' -o "HostName=$SETPOINT_SSH_ADDRESS" -o "HostKeyAlias=$SETPOINT_SSH_ALIAS" -o CheckHostIP=no';
  return {
    // Git passes this to a shell: it has only constants, and all other values are variables of the shell.
    GIT_SSH_COMMAND: `exec ssh -F "$SETPOINT_SSH_CONFIG" -o BatchMode=yes -o ConnectTimeout=20${own}${pinned}`,
    SETPOINT_SSH_CONFIG: access === undefined ? (config ?? '/dev/null') : '/dev/null',
    ...(access !== undefined && { SETPOINT_SSH_KEY: access.key, SETPOINT_SSH_KNOWN_HOSTS: access.knownHosts }),
    ...(pin === undefined ? {} : { SETPOINT_SSH_ADDRESS: pin.address, SETPOINT_SSH_ALIAS: pin.alias }),
  };
}

/**
 * Returns the pin of a connection by ssh; `undefined` if the ssh configuration leads that host elsewhere, which is the
 * operator's decision.
 */
export async function sshPin(
  { host, port }: ParsedGitUrl,
  address: string,
  config: string | undefined,
  signal: AbortSignal,
): Promise<SshPin | undefined> {
  const name = host.replace(/^\[(.*)\]$/, '$1');
  if (config === undefined) return { address, alias: aliasOf(name, port || defaultPort) };
  const args = ['-G', '-F', config, ...(port === 0 ? [] : ['-p', String(port)]), '--', name];
  const { code, stdout } = await run('ssh', { args, maxOutputBytes }, signal);
  const settings = new Map(
    stdout
      .split('\n')
      .map((line): [string, string] => [line.split(' ', 1)[0] ?? '', line.slice(line.indexOf(' ') + 1)]),
  );
  const isLedElsewhere =
    code !== 0 ||
    settings.get('hostname')?.toLowerCase() !== name.toLowerCase() ||
    settings.has('proxycommand') ||
    settings.has('proxyjump') ||
    settings.has('hostkeyalias');
  return isLedElsewhere ? undefined : { address, alias: aliasOf(name, Number(settings.get('port') ?? defaultPort)) };
}

/** The host of a repository as ssh looks it up in a list of known hosts. */
export function hostAlias({ host, port }: ParsedGitUrl): string {
  return aliasOf(host.replace(/^\[(.*)\]$/, '$1'), port || defaultPort);
}

/** Returns the host in the form of a list of known hosts. */
function aliasOf(host: string, port: number): string {
  return port === defaultPort ? host.toLowerCase() : `[${host.toLowerCase()}]:${port}`;
}
