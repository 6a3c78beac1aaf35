import { z } from 'zod';
import { Refused } from '../client.ts';
import type { Client } from '../client.ts';
import { Secrets } from '../secrets.ts';

const Me = z.object({ email: z.string(), has_password: z.boolean() });

/**
 * Changes the password of the account, or sets a first one. For a first one the server asks for a mailed code if the
 * login is not recent.
 */
export async function changePassword(client: Client): Promise<void> {
  await using secrets = new Secrets();
  const { email, has_password } = Me.parse(await client.request('GET', '/api/v1/auth/me'));
  if (has_password) {
    const current_password = await secrets.next('Current password');
    const new_password = await secrets.next('New password');
    await client.request('PUT', '/api/v1/auth/me/password', { current_password, new_password });
  } else await setFirst(client, email, secrets);
  console.log(`The password of ${email} is changed; its other sessions have ended`);
}

async function setFirst(client: Client, email: string, secrets: Secrets): Promise<void> {
  const password = await secrets.next('New password');
  const set = (code?: string): Promise<unknown> =>
    client.request('POST', '/api/v1/auth/me/set-initial-password', { password, ...(code !== undefined && { code }) });
  await set().catch(async (error: unknown) => {
    if (!(error instanceof Refused) || !error.reasons.includes('code_required')) throw error;
    await client.request('POST', '/api/v1/auth/send-code', { email });
    await set(await secrets.next(`Code from the mail to ${email}`));
  });
}
