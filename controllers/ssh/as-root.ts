import { readFileSync } from 'node:fs';
import { commands } from './connection.ts';
import type { RemoteResult, SshConnection, SshLogin, SudoResult } from './connection.ts';
import { parseFacts } from './facts.ts';
import type { Facts } from './facts.ts';
import type { HostKey } from './host-key.ts';
import { hiding } from './login.ts';
import { said, saidChars } from './said.ts';
import { SshFailure } from './ssh-failure.ts';

const lookScript = readFileSync(new URL('look.sh', import.meta.url), 'utf8');

/** A script of this program that is to run as root, in the way that the facts show. */
interface AsRoot {
  facts: Facts;
  login: SshLogin;
  script: string;
}

/** @throws SshFailure `no_root`, also if sudo refuses the password by now; as {@link SshConnection.run} */
export async function runAsRoot(connection: SshConnection, it: AsRoot, signal: AbortSignal): Promise<RemoteResult> {
  const { hostKey } = connection;
  const result = await askForRoot(connection, it, signal);
  if (result?.refusal !== 'refuses' && result !== undefined) return result;
  const message =
    result === undefined
      ? 'The login cannot run anything as root'
      : `sudo does not take the password of the login. It said: ${wordsOf(result, it.login)}`;
  throw new SshFailure('no_root', message, 'Log in as root, or let the user run sudo', { hostKey });
}

/** `undefined`: there is no way to. */
async function askForRoot(
  connection: SshConnection,
  { facts: { root, sudo }, login, script }: AsRoot,
  signal: AbortSignal,
): Promise<SudoResult | undefined> {
  if (root === 'yes') return connection.run(commands.plain, [script], signal);
  if (sudo === 'free') return connection.run(commands.sudo, [script], signal);
  if (sudo === 'asks' && login.type === 'password') return connection.runBySudo(login.password, [script], signal);
  return undefined;
}

/** Looks as the user, then again as root where that is possible: some facts are for root only. @throws SshFailure */
export async function lookAt(connection: SshConnection, login: SshLogin, signal: AbortSignal): Promise<Facts> {
  const { hostKey } = connection;
  const facts = factsOf(await connection.run(commands.plain, [lookScript], signal), { login, hostKey });
  if (facts.root === 'yes') return facts;
  const asRoot = await askForRoot(connection, { facts, login, script: lookScript }, signal);
  if (asRoot === undefined) return facts;
  if (asRoot.refusal !== undefined || asRoot.code !== 0)
    return { ...facts, sudo: asRoot.refusal ?? 'fails', sudo_says: wordsOf(asRoot, login) };
  const { root: _, sudo: __, ...more } = factsOf(asRoot, { login, hostKey });
  return { ...facts, ...more };
}

function factsOf(result: RemoteResult, { login, hostKey }: { login: SshLogin; hostKey: HostKey }): Facts {
  const facts = parseFacts(result.stdout);
  const hide = hiding(login);
  const { kernel, os_name, sudo_says } = facts;
  if (kernel !== undefined)
    return {
      ...facts,
      ...(os_name !== undefined && { os_name: hide(os_name) }),
      ...(sudo_says !== undefined && { sudo_says: hide(sudo_says) }),
    };
  throw new SshFailure(
    'no_shell',
    `The login has no POSIX shell. It said: ${wordsOf(result, login)}`,
    'Give the user /bin/sh or bash as its shell',
    { hostKey },
  );
}

function wordsOf({ stdout, stderr, code }: RemoteResult, login: SshLogin): string {
  return said(hiding(login)(stderr || stdout), saidChars.fact) || `exit code ${code ?? 'unknown'}`;
}
