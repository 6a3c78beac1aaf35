import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { decodeTerminalInput, encodeTerminal } from '../../agent-protocol/terminal-stream.ts';
import type { TerminalParams } from '../../agent-protocol/messages.ts';
import { keys } from '../../store/keys.ts';
import { commit } from '../../store/unit.ts';
import { startApi } from '../harness/api.ts';
import type { Answer, ApiWorld, Client } from '../harness/api.ts';
import { openFrames } from '../harness/frames.ts';
import type { Frames } from '../harness/frames.ts';
import { agentIsThere } from '../harness/running-instance.ts';
import { until } from '../harness/until.ts';

/** A terminal of a server is what one in an instance is (`terminals.test.ts`), at another place and with other rights. */
let world: ApiWorld;
let root: Client;
let admin: Client & { id: string };
let place: { project: string; environment: string; server: string };
let opened: Frames[];
let asked: { server: string; params: TerminalParams }[];
/** Terminals whose shell still runs. */
let running: number;

beforeEach(async () => {
  world = await startApi();
  root = await world.owner();
  admin = await world.user('admin');
  place = await world.place(await world.user());
  await agentIsThere(world.store, place, { capabilities: ['streams.duplex', 'terminals.server'] });
  await world.settled();
  opened = [];
  asked = [];
  running = 0;
  world.agents.exec = async function* (server, params, incoming, signal) {
    asked.push({ server, params });
    running++;
    signal.addEventListener('abort', () => running--, { once: true });
    for await (const it of decodeTerminalInput(incoming)) {
      if (it.type === 'resize') continue;
      yield encodeTerminal({ type: 'data', data: it.data });
      if (it.data.toString() === 'exit\n') yield encodeTerminal({ type: 'exit', code: 3 });
    }
  };
});
afterEach(async () => {
  for (const frames of opened) await frames[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const create = (by: Client = admin, body: object = {}): Promise<Answer> =>
  by.post(`/servers/${place.server}/terminal`, body);

async function attach(id: string, by: Client = admin): Promise<Frames> {
  const frames = await openFrames(
    `${world.url.replace('http', 'ws')}/default/ws/terminal/${id}?token=${by.token ?? ''}`,
  );
  opened.push(frames);
  return frames;
}

async function open(by: Client = admin): Promise<Frames> {
  const answer = await create(by);
  expect(answer.status).toBe(201);
  const frames = await attach(answer.data.sessionId, by);
  await frames.next('ready');
  return frames;
}

describe('a terminal of a server', () => {
  it('is a shell that its agent runs outside of all instances', async () => {
    const answer = await create(admin, { shell: '/bin/zsh', cols: 132, rows: 43 });
    expect(answer.data).toEqual({
      sessionId: expect.stringMatching(/^trm_[\w-]{50,}$/),
      expires_at: expect.any(String),
    });
    const frames = await attach(answer.data.sessionId);
    expect(await frames.next('ready')).toEqual({ type: 'ready', cursor: expect.any(String), server_id: place.server });
    frames.socket.send(JSON.stringify({ type: 'input', data: 'exit\n' }));
    expect(await frames.next('output')).toEqual({ type: 'output', data: 'exit\n' });
    expect(await frames.next('exit')).toEqual({ type: 'exit', code: 3 });
    await open();
    expect(asked).toEqual([
      { server: place.server, params: { kind: 'shell', shell: '/bin/zsh', cols: 132, rows: 43 } },
      { server: place.server, params: { kind: 'shell', cols: 80, rows: 24 } },
    ]);
  });

  it.each([
    { instance_id: crypto.randomUUID() },
    { command: ['id'] },
    { shell: 'sh -c reboot' },
    { shell: '$(reboot)' },
    { cols: 0 },
    { rows: 1001 },
  ])('is not made of %o', async (body) => {
    expect((await create(admin, body)).status).toBe(400);
  });

  it('counts with those in instances of the server', async () => {
    for (let n = 0; n < 10; n++) expect((await create()).status).toBe(201);
    await world.settled();
    expect(await create()).toMatchObject({
      status: 409,
      body: { error: { message: expect.stringMatching(/^The user has 10 terminals already/) } },
    });
  });

  it.each([
    [
      { capabilities: ['streams.duplex'] },
      'The agent of the server is of an earlier release, which has no terminals of the server: upgrade the agent',
    ],
    [
      { capabilities: ['streams.duplex', 'terminals.server'], forbids: ['terminals.server'] },
      'The operator of the machine allows no terminals of the server: start its agent without --no-server-terminals, or log in otherwise',
    ],
  ])('is refused by an agent with %o, with what to do', async (agent, message) => {
    await agentIsThere(world.store, place, agent);
    await world.settled();
    expect(await create()).toMatchObject({ status: 409, body: { error: { message } } });
  });

  it('needs the agent', async () => {
    await world.store.txn({ if: [], then: [{ delete: keys.agent('default', place.server) }] });
    await world.settled();
    expect((await create()).status).toBe(503);
  });

  it('is in the audit log with the server', async () => {
    const frames = await open();
    frames.socket.send(JSON.stringify({ type: 'input', data: 'exit\n' }));
    await frames.closed;
    const records = async () =>
      (await root.get('/audit?limit=100')).data.filter(({ user_id }: { user_id: string }) => user_id === admin.id);
    await until('it is closed there', async () =>
      (await records()).some(({ terminal }: { terminal: { event: string } | null }) => terminal?.event === 'closed'),
    );
    const objects = [{ kind: 'server', id: place.server, name: expect.any(String) }];
    const about = { objects, project_id: null, result: 'ok' };
    const [closed, begun, made] = await records();
    expect(closed).toMatchObject({ ...about, terminal: { event: 'closed', bytes_in: 5, reason: 'exit' } });
    expect(begun).toMatchObject({ ...about, route: 'WS /ws/terminal/:sessionId', terminal: { event: 'opened' } });
    expect(made).toMatchObject({ ...about, route: 'POST /servers/:id/terminal', role: 'admin', terminal: null });
  });
});

describe('the right to terminals of servers', () => {
  const allow = (server_terminals: string | null) => root.put('/settings', { server_terminals });

  it('is that of admins, also by a key with the scope admin', async () => {
    const owner = await world.user();
    expect((await create(owner)).status).toBe(403);
    for (const [scopes, status] of [
      [['write'], 403],
      [['admin'], 201],
    ] as const) {
      const { data } = await admin.post('/settings/service-keys', { name: scopes.join(), scopes });
      const headers = { 'x-service-key': data.key };
      const answer = await world.client().post(`/servers/${place.server}/terminal`, {}, headers);
      expect(answer.status).toBe(status);
    }
  });

  it('can be taken from admins by a setting, which superadmins alone change', async () => {
    expect((await root.get('/settings')).data.server_terminals).toBe('admins');
    expect((await admin.put('/settings', { server_terminals: 'superadmins' })).status).toBe(403);
    expect((await allow('users')).status).toBe(400);
    expect((await allow('superadmins')).status).toBe(200);
    expect(await create()).toMatchObject({
      status: 403,
      body: {
        error: { message: 'Only superadmins open terminals of servers here: the setting server_terminals says so' },
      },
    });
    expect((await create(root)).status).toBe(201);
    expect((await allow(null)).data.server_terminals).toBe('admins');
    expect((await create()).status).toBe(201);
  });

  it('is judged while one is open: the setting, the role and the server end it', async () => {
    const [of, ofRoot] = [await open(), await open(root)];
    await allow('superadmins');
    expect(await of.closed).toMatchObject({ code: 4403 });
    expect(ofRoot.socket.readyState).toBe(1);
    await allow(null);
    const again = await open();
    await root.put(`/users/${admin.id}`, { role: 'user' });
    expect(await again.closed).toMatchObject({ code: 4401 }); // a new role ends the sessions
    const unit = world.repo.begin();
    unit.requestDelete((await world.repo.get('server', place.server))!);
    await commit(unit);
    expect(await ofRoot.closed).toMatchObject({ code: 4404 });
    await until('the shells are stopped', async () => running === 0);
  });

  it('is judged again where it is attached to', async () => {
    const { data } = await create();
    await allow('superadmins');
    expect(await (await attach(data.sessionId)).closed).toMatchObject({ code: 4403 });
    expect(asked).toEqual([]);
  });
});
