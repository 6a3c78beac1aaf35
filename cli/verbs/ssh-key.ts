import { readFile, stat } from 'node:fs/promises';
import { z } from 'zod';
import { Refused } from '../client.ts';
import type { Client } from '../client.ts';
import { Secrets } from '../secrets.ts';

export interface SshKeyOptions {
  generate?: string;
  privateKey?: string;
  password?: boolean;
}

const maxFileBytes = 64 * 1024;
const Made = z.object({ type: z.string(), public_key: z.string().nullable() });

/**
 * Creates an SSH key, and prints the line for `authorized_keys`. A private key comes from a file; its passphrase, or a
 * password, from the terminal or standard input.
 */
export async function createSshKey(client: Client, name: string, options: SshKeyOptions): Promise<void> {
  const { type, public_key: line } = Made.parse(await send(client, name, options));
  console.log(`ssh_key ${name} is created (${type})`);
  if (line === null) return;
  console.log(`Add this line to ~/.ssh/authorized_keys of the user that servers are logged in to as:\n  ${line}`);
}

async function send(client: Client, name: string, { generate, privateKey, password }: SshKeyOptions): Promise<unknown> {
  await using secrets = new Secrets();
  const create = (secret: object): Promise<unknown> =>
    client.request('POST', '/api/v1/settings/ssh-keys', { name, ...secret });
  if (password === true) return await create({ password: await secrets.next('Password') });
  if (privateKey === undefined) return await create(generate === undefined ? {} : { generate });
  const key = await contentOf(privateKey);
  return await create({ private_key: key }).catch(async (error: unknown) => {
    if (!(error instanceof Refused) || !error.reasons.includes('passphrase_required')) throw error;
    return create({ private_key: key, passphrase: await secrets.next(`Passphrase of ${privateKey}`) });
  });
}

async function contentOf(file: string): Promise<string> {
  const { size } = await stat(file);
  if (size > maxFileBytes) throw new Error(`${file} is no private key: it has ${size} bytes`);
  return readFile(file, 'utf8');
}
