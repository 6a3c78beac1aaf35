/**
 * Makes a project, and follows what happens in it until it is gone. Usage:
 * SETPOINT_TOKEN=… node client/example.ts http://127.0.0.1:7070 default
 */
import { createClient, dataOf, watch } from './client.ts';

const [server = 'http://127.0.0.1:7070', tenant = 'default'] = process.argv.slice(2);
const access = { server, tenant, token: process.env['SETPOINT_TOKEN'] ?? '' };
const client = createClient(access);

const done = new AbortController();
let id: string | undefined;
for await (const frame of watch(access, { kinds: ['project'], signal: done.signal })) {
  if (frame.type === 'ready') {
    ({ id } = dataOf(await client.POST('/api/v1/projects', { body: { name: 'example' } })));
    process.stdout.write(`made ${id}\n`);
    dataOf(await client.DELETE('/api/v1/projects/{id}', { params: { path: { id } } }));
  }
  if (frame.type !== 'change' || frame.id !== id) continue;
  process.stdout.write(`${frame.op} ${frame.kind} ${frame.id}\n`);
  if (frame.op === 'delete') done.abort();
}
