import { text } from 'node:stream/consumers';
import { z } from 'zod';
import { createClient } from '../client.ts';
import { saveCredentials } from '../credentials.ts';

const Login = z.object({ token: z.string(), user: z.looseObject({ email: z.string(), role: z.string() }) });

/** Logs in and keeps the token for the next command. The password comes on standard input, never as an argument. */
export async function login(options: { server: string; tenant: string; email: string }): Promise<void> {
  const password = await readPassword();
  const client = createClient({ server: options.server, tenant: options.tenant });
  const answer = Login.parse(await client.request('POST', '/api/v1/auth/login', { email: options.email, password }));
  await saveCredentials({ server: options.server, tenant: options.tenant, token: answer.token });
  console.log(`Logged in to ${options.server} (${options.tenant}) as ${answer.user.email}, ${answer.user.role}`);
}

/** One line: typed without echo at a terminal, else all of standard input without its final line break. */
async function readPassword(): Promise<string> {
  const { stdin } = process;
  if (!stdin.isTTY) return (await text(stdin)).replace(/\r?\n$/, '');
  process.stderr.write('Password: ');
  stdin.setRawMode(true);
  stdin.setEncoding('utf8');
  let typed = '';
  try {
    for await (const chunk of stdin) {
      for (const char of String(chunk)) {
        if (char === '\r' || char === '\n') return typed;
        if (char === '\u0003') throw new Error('Interrupted');
        typed = char === '\u007f' ? typed.slice(0, -1) : typed + char;
      }
    }
    return typed;
  } finally {
    stdin.setRawMode(false);
    process.stderr.write('\n');
  }
}
