import { z } from 'zod';
import type { Client } from '../client.ts';
import { fileText } from '../file-text.ts';
import { allowedProjects } from './allowed-projects.ts';
import { Secrets } from '../secrets.ts';
import { withSecret } from './ssh-key.ts';

export interface GitCredentialOptions {
  host?: string;
  /** It is a token, which is asked for. */
  accessToken?: boolean;
  username?: string;
  ca?: string;
  generate?: string;
  privateKey?: string;
  hostKeys?: string;
  projects?: string[];
}

const Made = z.object({ type: z.string(), host: z.string(), public_key: z.string().nullable() });
const path = '/api/v1/settings/git-credentials';

/** Creates a git credential: a token, or a deploy key whose public half it prints. */
export async function createGitCredential(client: Client, name: string, options: GitCredentialOptions): Promise<void> {
  const { host, accessToken, hostKeys } = options;
  if (host === undefined) throw new Error('A git credential is for one host: name it by --host');
  if (accessToken !== true && hostKeys === undefined)
    throw new Error(
      'A git credential is a token, by --access-token, or a deploy key, with --host-keys FILE: what `ssh-keyscan HOST` prints, compared with what the host publishes',
    );
  const plain = { name, type: accessToken === true ? 'token' : 'ssh', ...(await plainFields(client, options)) };
  const made = await sendSecret((secret) => client.request('POST', path, { ...plain, ...secret }), options);
  console.log(`git-credential ${name} is created (${Made.parse(made).type} for ${Made.parse(made).host})`);
  printDeployKey(made);
}

/** Changes a git credential at `at`. */
export async function setGitCredential(
  client: Client,
  at: string,
  renamed: object,
  options: GitCredentialOptions,
): Promise<void> {
  const plain = { ...renamed, ...(await plainFields(client, options)) };
  const changed = await sendSecret((secret) => client.request('PUT', at, { ...plain, ...secret }), options);
  if (options.generate !== undefined || options.privateKey !== undefined) printDeployKey(changed);
}

async function plainFields(client: Client, options: GitCredentialOptions): Promise<object> {
  const { host, username, ca, hostKeys, projects } = options;
  return {
    ...(host !== undefined && { host }),
    ...(username !== undefined && { username }),
    ...(ca !== undefined && { ca_certificate: ca === 'none' ? null : await fileText(ca, 'certificate') }),
    ...(hostKeys !== undefined && { host_keys: linesOf(await fileText(hostKeys, 'host keys')) }),
    ...(projects !== undefined && { allowed_projects: await allowedProjects(client, projects) }),
  };
}

async function sendSecret(
  send: (secret: object) => Promise<unknown>,
  { accessToken, generate, privateKey }: GitCredentialOptions,
): Promise<unknown> {
  if (accessToken !== true)
    return withSecret(send, {
      ...(generate !== undefined && { generate }),
      ...(privateKey !== undefined && { privateKey }),
    });
  await using secrets = new Secrets();
  return await send({ token: await secrets.next('Token') });
}

/** Lines without comments, as `ssh-keyscan` prints them. */
function linesOf(text: string): string[] {
  return text.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('#'));
}

function printDeployKey(answer: unknown): void {
  const { public_key: line, host } = Made.parse(answer);
  if (line !== null) console.log(`Add this deploy key, for reading, to the repositories at ${host}:\n  ${line}`);
}
