import { z } from 'zod';
import { createClient, Refused } from '../client.ts';
import type { Client } from '../client.ts';
import { contextName, saveContext } from '../credentials.ts';
import { Secrets } from '../secrets.ts';

const Login = z.object({ token: z.string(), user: z.looseObject({ email: z.string(), role: z.string() }) });

interface Options {
  server: string;
  tenant: string;
  email: string;
  /** Name under which the login is stored. */
  context?: string;
}

/**
 * Logs in and stores the token for the next commands. The password or mailed code, and the code of a second factor if
 * the account has one, are read from the terminal or as lines of standard input. They are never arguments, which every
 * user of the machine can see.
 */
export async function login(options: Options & { code?: true }): Promise<void> {
  await using secrets = new Secrets();
  const client = createClient(options);
  const { email } = options;
  if (options.code !== true) {
    const proof = { email, password: await secrets.next('Password') };
    await enter(client, options, '/api/v1/auth/login', proof, secrets);
    return;
  }
  await client.request('POST', '/api/v1/auth/send-code', { email });
  const proof = { email, code: await secrets.next(`Code from the mail to ${email}`) };
  await enter(client, options, '/api/v1/auth/verify-code', proof, secrets);
}

/** Registers the first user of a tenant, and logs in as that user. */
export async function register(
  options: Options & { firstName: string; lastName: string; setupToken?: string },
): Promise<void> {
  await using secrets = new Secrets();
  const client = createClient(options);
  const account = { email: options.email, password: await secrets.next('Password of the new account') };
  const names = { first_name: options.firstName, last_name: options.lastName };
  const proof = options.setupToken === undefined ? {} : { setup_token: options.setupToken };
  await client.request('POST', '/api/v1/auth/register', { ...account, ...names, ...proof });
  await enter(client, options, '/api/v1/auth/login', account, secrets);
}

async function enter(
  client: Client,
  { server, tenant, context }: Options,
  path: string,
  proof: Readonly<Record<string, string>>,
  secrets: Secrets,
): Promise<void> {
  const attempt = async (totp?: string) =>
    Login.parse(await client.request('POST', path, { ...proof, ...(totp !== undefined && { totp }) }));
  const { token, user } = await attempt().catch(async (error: unknown) => {
    if (!(error instanceof Refused) || !error.reasons.includes('totp_required')) throw error;
    return attempt(await secrets.next('Code of your authenticator'));
  });
  const name = context ?? contextName({ server, tenant });
  await saveContext({ name, server, tenant, token, email: user.email });
  console.log(`Logged in to ${server} (${tenant}) as ${user.email}, ${user.role}; kept as context ${name}`);
}
