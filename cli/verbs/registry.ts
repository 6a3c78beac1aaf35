import { z } from 'zod';
import type { Client } from '../client.ts';
import { findObject, pathOf } from '../objects.ts';
import { Secrets } from '../secrets.ts';
import { allowedProjects } from './allowed-projects.ts';

export interface RegistryOptions {
  address?: string;
  username?: string;
  password?: boolean;
  projects?: string[];
  /** It is kept without a login. */
  untested?: boolean;
}

const Result = z.object({ ok: z.boolean(), message: z.string() });

/** Creates a registry; its password is asked for. */
export async function createRegistry(client: Client, name: string, options: RegistryOptions): Promise<void> {
  const { address, username } = options;
  if (address === undefined || username === undefined)
    throw new Error('A registry has an address and a user name: name them by --address and --username');
  await using secrets = new Secrets();
  const password = await secrets.next('Password');
  await client.request('POST', '/api/v1/settings/registries', {
    name,
    password,
    ...(await plainFields(client, options)),
  });
  console.log(`registry ${name} is created${options.untested === true ? '' : ': the login succeeded'}`);
}

/** Changes a registry at `at`. */
export async function setRegistry(
  client: Client,
  at: string,
  renamed: object,
  options: RegistryOptions,
): Promise<void> {
  await using secrets = new Secrets();
  const password = options.password === true ? { password: await secrets.next('Password') } : {};
  await client.request('PUT', at, { ...renamed, ...(await plainFields(client, options)), ...password });
}

/** Logs in to a registry, and prints what came of it. @throws Error if it did not succeed */
export async function testRegistry(client: Client, word: string, name: string): Promise<void> {
  if (word !== 'registry' && word !== 'registries') throw new Error(`Only a registry is tested, and not: ${word}`);
  const { id } = await findObject(client, 'registries', name);
  const { ok, message } = Result.parse(await client.request('POST', `${pathOf('registries', { id })}/test`, {}));
  if (!ok) throw new Error(message);
  console.log(message);
}

async function plainFields(
  client: Client,
  { address, username, projects, untested }: RegistryOptions,
): Promise<object> {
  return {
    ...(address !== undefined && { address }),
    ...(username !== undefined && { username }),
    ...(projects !== undefined && { allowed_projects: await allowedProjects(client, projects) }),
    ...(untested === true && { untested }),
  };
}
