import { z } from 'zod';
import { Refused } from '../client.ts';
import type { Client } from '../client.ts';
import { fileText } from '../file-text.ts';
import { Secrets } from '../secrets.ts';

export interface SshKeyOptions {
  generate?: string;
  privateKey?: string;
  password?: boolean;
}

const Made = z.object({ type: z.string(), public_key: z.string().nullable() });

/** Creates an SSH key, and prints the line for `authorized_keys`. */
export async function createSshKey(client: Client, name: string, options: SshKeyOptions): Promise<void> {
  const create = (secret: object): Promise<unknown> =>
    client.request('POST', '/api/v1/settings/ssh-keys', { name, ...secret });
  const made = await withSecret(create, options);
  console.log(`ssh-key ${name} is created (${Made.parse(made).type})`);
  printPublicHalf(made);
}

/** Prints the line for `authorized_keys` of an SSH key that was made or changed, unless it is a password. */
export function printPublicHalf(answer: unknown): void {
  const { public_key: line } = Made.parse(answer);
  if (line !== null)
    console.log(`Add this line to ~/.ssh/authorized_keys of the user that servers are logged in to as:\n  ${line}`);
}

/**
 * Sends the secret that the options name, if any. A private key comes from a file; its passphrase, or a password, from
 * the terminal or standard input.
 */
export async function withSecret(
  send: (secret: object) => Promise<unknown>,
  { generate, privateKey, password }: SshKeyOptions,
): Promise<unknown> {
  await using secrets = new Secrets();
  if (password === true) return await send({ password: await secrets.next('Password') });
  if (privateKey === undefined) return await send(generate === undefined ? {} : { generate });
  const key = await fileText(privateKey, 'private key');
  return await send({ private_key: key }).catch(async (error: unknown) => {
    if (!(error instanceof Refused) || !error.reasons.includes('passphrase_required')) throw error;
    return send({ private_key: key, passphrase: await secrets.next(`Passphrase of ${privateKey}`) });
  });
}
