import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { systemRandom } from '../../api/ground/random.ts';
import { startReplica } from '../../cli/replica.ts';
import { parseSmtpUrl } from '../../controllers/mail/smtp.ts';
import { systemClock } from '../../time/clock.ts';
import { keys } from '../../store/keys.ts';
import { openRepository } from '../../store/repo.ts';
import { openKeyring } from '../../store/seal.ts';
import { openSqlite } from '../../store/sqlite/open.ts';
import { commit } from '../../store/unit.ts';
import { startSmtpServer } from '../harness/smtp-server.ts';
import { desiredState } from '../harness/states.ts';

const password = 'correct horse battery';

it('an invite reaches its address by mail, and the token in it lets its owner in', async () => {
  await using cleanup = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-invite-'));
  cleanup.defer(() => rm(folder, { recursive: true, force: true }));
  const smtp = cleanup.use(await startSmtpServer());
  const store = cleanup.use(await openSqlite({ path: ':memory:', clock: systemClock }));
  const lines: string[] = [];
  const replica = cleanup.use(
    await startReplica({
      store,
      keyring: await openKeyring({ path: join(folder, 'keys.json'), store }),
      clock: systemClock,
      random: systemRandom,
      uniform: Math.random,
      log: pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) }),
      registry: new Registry(),
      replica: { id: crypto.randomUUID(), url: 'http://replica.test', version: '1.2.3' },
      publicUrl: 'https://setpoint.example',
      mail: { server: parseSmtpUrl(smtp.url)!, from: 'setpoint@example.test' },
      ownPorts: [],
      trustedProxies: [],
      buildDeadlineMs: 600_000,
      rolloutDeadlineMs: 120_000,
      auditKeepMs: 3_600_000,
      strict: true,
    }),
  );
  replica.server.listen(0, '127.0.0.1');
  await once(replica.server, 'listening');
  const base = `http://127.0.0.1:${(replica.server.address() as AddressInfo).port}/default/api/v1`;
  const send = async (path: string, token?: string, body?: object) => {
    const response = await fetch(`${base}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      // whoever asks has no say in the links of a mail
      headers: {
        'content-type': 'application/json',
        'x-forwarded-host': 'evil.example',
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const { data } = (await response.json()) as { data: ReturnType<typeof JSON.parse> };
    return { status: response.status, data };
  };
  const owner = (await send('/auth/register', undefined, { email: 'ann@example.test', password })).data.token;
  const project = (await send('/projects', owner, { name: 'Shop' })).data.id;
  const invited = await send(`/projects/${project}/invites`, owner, { email: 'bob@example.test', role: 'viewer' });
  expect(invited.status).toBe(201);

  const mail = await smtp.received('bob@example.test');
  expect([mail.from, mail.subject]).toEqual(['setpoint@example.test', 'Invitation to a project']);
  expect(mail.raw).not.toContain('evil.example');
  const token = /https:\/\/setpoint\.example\/console#\/default\/invites\/([\w-]{43})\s/.exec(mail.text)?.[1] ?? '';

  const unit = openRepository(store, 'default', systemClock).begin();
  const { password_hash } = replica.mirror.tenant('default').list('user')[0]!.desired;
  unit.create(
    'user',
    crypto.randomUUID(),
    desiredState('user', {
      email: 'Bob@example.test',
      role: 'user',
      password_hash: password_hash!,
    }),
  );
  await commit(unit);
  const bob = (await send('/auth/login', undefined, { email: 'bob@example.test', password })).data.token;
  expect((await send(`/projects/${project}`, bob)).status).toBe(403);
  expect((await send(`/invites/${token}`, bob)).data).toMatchObject({
    role: 'viewer',
    conditions: expect.arrayContaining([expect.objectContaining({ type: 'Delivered', status: 'true' })]),
  });
  expect((await send(`/invites/${token}/accept`, bob, {})).status).toBe(200);
  expect((await send(`/projects/${project}`, bob)).status).toBe(200);
  expect(await smtp.mailTo('bob@example.test')).toHaveLength(1);
  expect(lines.join('')).not.toContain(token);
  expect(JSON.stringify((await store.list(keys.all)).entries)).not.toContain(token);
});
