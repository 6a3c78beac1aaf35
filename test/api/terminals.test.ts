import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { CallError } from '../../agent-protocol/call-error.ts';
import type { ExecParams, TerminalParams } from '../../agent-protocol/messages.ts';
import { decodeTerminalInput, encodeTerminal } from '../../agent-protocol/terminal-stream.ts';
import { countLimits } from '../../api/rights/count-limits.ts';
import { forgetExpiredTerminals } from '../../api/rights/terminal-sessions.ts';
import { unavailable } from '../../store/errors.ts';
import { keys } from '../../store/keys.ts';
import { commit } from '../../store/unit.ts';
import { startApi } from '../harness/api.ts';
import type { Answer, ApiWorld, Client } from '../harness/api.ts';
import { FakeClock } from '../harness/fake-clock.ts';
import { openFrames } from '../harness/frames.ts';
import type { Frames } from '../harness/frames.ts';
import { InterruptibleStore } from '../harness/interruptible-store.ts';
import { agentIsThere, instanceOf } from '../harness/running-instance.ts';
import { until } from '../harness/until.ts';

/** SEC-49: a terminal is its creator's alone, once, for a while, and ends with the right to it. */
let world: ApiWorld;
let store: InterruptibleStore;
let clock: FakeClock;
let root: Client;
let owner: Client & { id: string };
let place: { project: string; environment: string; server: string };
let app: string;
let instance: string;
let opened: Frames[];
let asked: ExecParams[];
/** Terminals whose process still runs. */
let running: number;

beforeEach(async () => {
  clock = new FakeClock();
  world = await startApi({ clock, wrap: (inner) => (store = new InterruptibleStore(inner)) });
  root = await world.owner();
  owner = await world.user();
  place = await world.place(owner);
  const source = { source_type: 'image', image_url: 'example/web' };
  app = (
    await owner.post('/applications', { project_id: place.project, server_id: place.server, name: 'web', ...source })
  ).data.id;
  await world.repo.change('application', app, (draft) => void (draft.run = 'running'));
  await world.observe('application', app, {
    phase: 'running',
    consecutive_failures: 0,
    ready_replicas: 1,
    crash_loop_counted: false,
  });
  instance = await instanceOf(world.repo, { ...place, application: app });
  await agentIsThere(world.store, place);
  await world.settled();
  opened = [];
  asked = [];
  running = 0;
  world.agents.exec = echo;
});
afterEach(async () => {
  for (const frames of opened) await frames[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

/** A process that shows what is typed, tells its size, and ends by `exit CODE`. */
async function* echo(
  _server: string,
  params: TerminalParams,
  incoming: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  if (params.kind === 'exec') asked.push(params);
  running++;
  const left = Promise.withResolvers<never>();
  left.promise.catch(() => undefined);
  const abort = (): void => left.reject(new CallError('stopped', 'The reader left'));
  signal.addEventListener('abort', abort, { once: true });
  try {
    const input = decodeTerminalInput(incoming);
    for (;;) {
      const { done, value } = await Promise.race([input.next(), left.promise]);
      if (done === true) return;
      const text = value.type === 'data' ? value.data.toString() : '';
      if (value.type === 'resize')
        yield encodeTerminal({ type: 'data', data: Buffer.from(`${value.rows} ${value.cols}`) });
      else if (text.startsWith('exit ')) {
        yield encodeTerminal({ type: 'exit', code: Number(text.slice(5)) });
        return;
      } else yield encodeTerminal({ type: 'data', data: value.data });
    }
  } finally {
    running--;
  }
}

const create = (by: Client = owner, body: object = {}): Promise<Answer> =>
  by.post(`/applications/${app}/terminal`, body);

async function idOf(by: Client = owner, body: object = {}): Promise<string> {
  const answer = await create(by, body);
  expect(answer.status).toBe(201);
  return answer.data.sessionId;
}

const address = (id: string, by: Client, base = world.url): string =>
  `${base.replace('http', 'ws')}/default/ws/terminal/${id}?token=${by.token ?? ''}`;

async function attach(id: string, by: Client = owner, base = world.url): Promise<Frames> {
  const frames = await openFrames(address(id, by, base));
  opened.push(frames);
  return frames;
}

async function open(by: Client = owner, body: object = {}): Promise<Frames> {
  const frames = await attach(await idOf(by, body), by);
  await frames.next('ready');
  return frames;
}

const send = (frames: Frames, message: object): void => frames.socket.send(JSON.stringify(message));
const stored = async () => (await world.store.list({ prefix: keys.terminal('default', '') })).entries;

describe('a terminal', () => {
  it('passes what is typed and shown, its size, and the code of its end', async () => {
    const answer = await create(owner, { cols: 132, rows: 43 });
    expect(answer.data).toEqual({
      sessionId: expect.stringMatching(/^trm_[\w-]{50,}$/),
      expires_at: new Date(clock.now().getTime() + 60_000).toISOString(),
    });
    const frames = await attach(answer.data.sessionId);
    expect(await frames.next('ready')).toEqual({ type: 'ready', cursor: expect.any(String), instance_id: instance });
    send(frames, { type: 'input', data: 'grüße' });
    expect(await frames.next('output')).toEqual({ type: 'output', data: 'grüße' });
    send(frames, { type: 'resize', cols: 100, rows: 30 });
    expect(await frames.next('output')).toEqual({ type: 'output', data: '30 100' });
    send(frames, { type: 'of a later release', data: 1 });
    send(frames, { type: 'input', data: 'exit 3' });
    expect(await frames.next('exit')).toEqual({ type: 'exit', code: 3 });
    expect(await frames.closed).toEqual({ code: 1000, reason: 'exit' });
    expect(asked).toEqual([{ kind: 'exec', assignment: instance, cols: 132, rows: 43 }]);
    expect(await stored()).toEqual([]);
  });

  it('passes any bytes in binary frames', async () => {
    const socket = new WebSocket(`${address(await idOf(), owner)}&output=binary`);
    const chunks: Buffer[] = [];
    socket.on('message', (data: Buffer, isBinary) => isBinary && chunks.push(data));
    await new Promise((resolve) => socket.once('message', resolve)); // ready
    const bytes = Buffer.from(Array.from({ length: 40_000 }, (_, n) => (n * 7) % 256));
    socket.send(bytes);
    await until('all came back', async () => Buffer.concat(chunks).length === bytes.length);
    expect(Buffer.concat(chunks).equals(bytes)).toBe(true);
    socket.terminate();
    await until('it ended', async () => running === 0);
  });

  it('runs the command or the shell that its creator named, and only one of both', async () => {
    await open(owner, { shell: '/bin/zsh' });
    await open(owner, { command: ['ls', '-l', 'a b'] });
    expect(asked.map(({ shell, command }) => shell ?? command)).toEqual(['/bin/zsh', ['ls', '-l', 'a b']]);
    expect((await create(owner, { shell: 'sh', command: ['ls'] })).status).toBe(400);
    for (const shell of ['', 'sh -c reboot', 'a;b', '$(x)']) expect((await create(owner, { shell })).status).toBe(400);
    for (const size of [{ cols: 0 }, { rows: 1001 }, { cols: 1.5 }])
      expect((await create(owner, size)).status).toBe(400);
  });

  it('is in the instance that was named, else in the ready one with the lowest number', async () => {
    const starting = await instanceOf(world.repo, { ...place, application: app }, { slot: 1, ready: false });
    const stopped = await instanceOf(world.repo, { ...place, application: app }, { slot: 2, phase: 'stopped' });
    const third = await instanceOf(world.repo, { ...place, application: app }, { slot: 3 });
    await world.settled();
    await open();
    await open(owner, { instance_id: starting });
    await open(owner, { instance_id: third });
    expect(asked.map(({ assignment }) => assignment)).toEqual([instance, starting, third]);
    expect(await create(owner, { instance_id: stopped })).toMatchObject({
      status: 409,
      body: {
        error: { message: 'The instance does not run at the moment: choose another one, or wait until it is ready' },
      },
    });
    expect((await create(owner, { instance_id: crypto.randomUUID() })).status).toBe(404);
  });

  it('is refused, with what to do, where nothing runs, the agent is away, or its release has none', async () => {
    await agentIsThere(world.store, place, { capabilities: ['configurations'] });
    await world.settled();
    expect(await create()).toMatchObject({
      status: 409,
      body: {
        error: {
          message: 'The agent of the server is of an earlier release, which has no terminals: upgrade the agent',
        },
      },
    });
    await world.store.txn({ if: [], then: [{ delete: keys.agent('default', place.server) }] });
    await world.settled();
    expect((await create()).status).toBe(503);
    const unit = world.repo.begin();
    unit.requestDelete((await world.repo.get('assignment', instance))!);
    await commit(unit);
    await world.repo.observe(
      (await world.repo.get('assignment', instance))!,
      {
        phase: 'stopped',
        ready: false,
        stable: false,
        restarts: 0,
        crash_loop: false,
        observedGeneration: 1,
        conditions: [],
      },
      [],
    );
    await world.settled();
    expect(await create()).toMatchObject({
      status: 409,
      body: {
        error: {
          message: 'No instance of the application runs at the moment: wait until one is ready, then open a terminal',
        },
      },
    });
    await world.repo.change('application', app, (draft) => void (draft.run = 'stopped'));
    await world.settled();
    expect((await create()).body.error?.message).toBe('The application is stopped: start it, then open a terminal');
  });

  it('that the store cannot be asked about runs nothing, and says that it can be tried again', async () => {
    const id = await idOf();
    store.beforeTxn = () => Promise.reject(unavailable('down'));
    const frames = await attach(id);
    expect(await frames.closed).toEqual({ code: 1013, reason: 'the store does not answer: try again' });
    store.beforeTxn = undefined;
    expect(asked).toEqual([]);
    await (await attach(id)).next('ready');
  });

  it('that cannot begin or is lost says why', async () => {
    world.agents.exec = async function* () {
      yield encodeTerminal({ type: 'data', data: Buffer.from('some') });
      throw new CallError('no_program', 'The container has no program /bin/zsh');
    };
    const frames = await open();
    expect(await frames.next('output')).toMatchObject({ data: 'some' });
    expect(await frames.next('error')).toEqual({
      type: 'error',
      code: 'no_program',
      message: 'The container has no program /bin/zsh',
    });
    expect(await frames.closed).toEqual({ code: 1000, reason: 'no_program' });
  });

  it.each(['{', '[]', '{"type":"input"}', '{"type":"resize","cols":0,"rows":1}'])(
    'is closed by a message that is %s',
    async (message) => {
      const frames = await open();
      frames.socket.send(message);
      expect(await frames.closed).toMatchObject({ code: 1007 });
      await until('it ended', async () => running === 0);
    },
  );

  it('does not take more input than its process reads', async () => {
    const more = Promise.withResolvers<void>();
    let read = 0;
    world.agents.exec = async function* (_server, _params, incoming) {
      yield encodeTerminal({ type: 'data', data: Buffer.from('deaf') });
      await more.promise;
      for await (const it of decodeTerminalInput(incoming)) {
        read += it.type === 'data' ? it.data.length : 0;
        if (read === 20_000_000) return;
      }
    };
    const frames = await open();
    await frames.next('output');
    for (let sent = 0; sent < 20_000_000; sent += 50_000) frames.socket.send(Buffer.alloc(50_000));
    const seen: number[] = [];
    const standsStill = async (): Promise<boolean> => {
      seen.push(frames.socket.bufferedAmount);
      return seen.length > 5 && new Set(seen.slice(-5)).size === 1;
    };
    await until('the socket stands still', standsStill, { everyMs: 100 });
    expect(frames.socket.bufferedAmount).toBeGreaterThan(5_000_000);
    // The pong of a reader that has to wait is not read: it is alive.
    await clock.advance(95_000);
    expect(frames.socket.readyState).toBe(WebSocket.OPEN);
    more.resolve();
    expect(await frames.closed).toMatchObject({ code: 1000, reason: 'ended' });
    expect(read).toBe(20_000_000);
  });
});

describe('SEC-49: the id of a terminal', () => {
  it('lets its creator in once, also of many attempts at two replicas', async () => {
    const other = await world.replica();
    const id = await idOf();
    const all = await Promise.all(
      Array.from({ length: 8 }, (_, n) => attach(id, owner, n % 2 === 0 ? world.url : other)),
    );
    const ready = all.map((frames) => frames.next('ready').then(() => true));
    const closed = all.map((frames) => frames.closed.then(({ code }) => code));
    const outcomes = await Promise.all(all.map((_, n) => Promise.race([ready[n], closed[n]])));
    for (const one of ready) one.catch(() => undefined);
    expect(outcomes.filter((it) => it === true)).toHaveLength(1);
    expect(outcomes.filter((it) => it === 4409)).toHaveLength(7);
  });

  it('lets nobody in who was overtaken', async () => {
    const id = await idOf();
    store.beforeTxn = async () => {
      store.beforeTxn = undefined;
      await (await attach(id)).next('ready');
    };
    expect(await (await attach(id)).closed).toMatchObject({ code: 4409 });
    expect(asked).toHaveLength(1);
  });

  it('is not in the store, and expires within a minute', async () => {
    const id = await idOf();
    expect((await stored()).map(({ key, value }) => `${key} ${value}`).join()).not.toContain(id.slice(24));
    await clock.advance(60_001);
    expect(await (await attach(id)).closed).toMatchObject({ code: 4409 });
    await forgetExpiredTerminals(world);
    expect(await stored()).toEqual([]);
  });

  it('does not serve another user, nor another session of its creator, and is not used up by them', async () => {
    const id = await idOf();
    const again = await world.client().post('/auth/login', { email: 'x', password: 'y' });
    expect(again.status).not.toBe(200);
    const key = await owner.post('/settings/service-keys', { name: 'k', scopes: ['write'] });
    expect(key.status).toBe(201);
    const withKey = await openFrames(`${world.url.replace('http', 'ws')}/default/ws/terminal/${id}`, {
      'x-service-key': key.data.key,
    });
    opened.push(withKey);
    expect(await withKey.closed).toMatchObject({ code: 4409 });
    expect(await (await attach(id, root)).closed).toMatchObject({ code: 4409 });
    await (await attach(id)).next('ready');
    for (const wrong of ['trm_', `${id}x`, 'x'])
      expect(await (await attach(wrong)).closed).toMatchObject({ code: 4409 });
  });

  it('serves a ticket of the same session, as a browser has one', async () => {
    const id = await idOf();
    const { data } = await owner.post('/auth/stream-tickets', { path: `/ws/terminal/${id}` });
    const frames = await openFrames(
      `${world.url.replace('http', 'ws')}/default/ws/terminal/${id}?token=${data.ticket}`,
    );
    opened.push(frames);
    await frames.next('ready');
  });
});

describe('SEC-32: an open terminal ends at once', () => {
  async function ends(frames: Frames, code: number): Promise<void> {
    expect(await frames.closed).toMatchObject({ code });
    await until('the process is stopped', async () => running === 0);
    await until('it is forgotten', async () => (await stored()).length === 0);
  }

  it('with the logout of its user', async () => {
    const frames = await open();
    await owner.post('/auth/logout');
    await ends(frames, 4401);
  });

  it.each(['viewer', 'nobody'])('when its user becomes a %s in the project', async (what) => {
    const user = await world.user();
    const path = `/projects/${place.project}/members`;
    const { id } = (await owner.post(path, { user_id: user.id, role: 'member' })).data;
    const frames = await open(user);
    if (what === 'viewer') expect((await owner.put(`${path}/${id}`, { role: 'viewer' })).status).toBe(200);
    else expect((await owner.delete(`${path}/${id}`)).status).toBe(204);
    await ends(frames, 4403);
  });

  it('with the deletion of its application', async () => {
    const frames = await open();
    expect((await owner.delete(`/applications/${app}`)).status).toBeLessThan(300);
    await ends(frames, 4404);
  });

  it('with the deletion of its project', async () => {
    const frames = await open();
    const unit = world.repo.begin();
    unit.requestDelete((await world.repo.get('project', place.project))!);
    await commit(unit);
    await ends(frames, 4404);
  });

  it('and does not begin where the right was lost since it was made', async () => {
    const user = await world.user();
    const path = `/projects/${place.project}/members`;
    const { id } = (await owner.post(path, { user_id: user.id, role: 'member' })).data;
    const session = await idOf(user);
    await owner.put(`${path}/${id}`, { role: 'viewer' });
    expect(await (await attach(session, user)).closed).toMatchObject({ code: 4403 });
    expect(asked).toEqual([]);
  });

  it('after 15 minutes in which nothing was typed or shown, and after 4 hours in any case', async () => {
    const idle = await open();
    const busy = await open();
    for (let minutes = 0; minutes < 14; minutes += 7) {
      send(busy, { type: 'input', data: 'x' });
      await busy.next('output');
      await clock.advance(7 * 60_000);
    }
    send(busy, { type: 'input', data: 'x' });
    await busy.next('output');
    await clock.advance(60_001);
    expect(await idle.closed).toEqual({ code: 1000, reason: 'idle for 15 minutes' });
    for (let minutes = 15; minutes < 240; minutes += 10) {
      send(busy, { type: 'input', data: 'x' });
      await busy.next('output');
      await clock.advance(10 * 60_000);
    }
    expect(await busy.closed).toEqual({ code: 1000, reason: 'open for 4 hours' });
    await until('the processes are stopped', async () => running === 0);
  });
});

describe('terminals', () => {
  it('are at most so many of one user, and so many on one server', async () => {
    for (let n = 0; n < countLimits.terminalsPerUser; n++) await idOf();
    await world.settled();
    const refused = await create();
    expect(refused.status).toBe(409);
    expect(refused.body.error?.message).toBe(
      `The user has ${countLimits.terminalsPerUser} terminals already and at most ${countLimits.terminalsPerUser} are allowed: close ` +
        'one of them',
    );
    for (let users = 1; users * countLimits.terminalsPerUser < countLimits.terminalsPerServer; users++) {
      const admin = await world.user('admin');
      const room = countLimits.terminalsPerServer - users * countLimits.terminalsPerUser;
      for (let n = 0; n < Math.min(room, countLimits.terminalsPerUser); n++) await idOf(admin);
      await world.settled();
    }
    const crowded = await create(root);
    expect(crowded.status).toBe(409);
    expect(crowded.body.error?.message).toMatch(/^The server has 32 terminals already/);
    await clock.advance(60_001);
    expect((await create()).status).toBe(201);
  });

  it('that are open count as well, until they are closed', async () => {
    const [first] = await Promise.all(Array.from({ length: countLimits.terminalsPerUser }, () => open()));
    await clock.advance(120_000);
    await world.settled();
    expect((await create()).status).toBe(409);
    first!.socket.close();
    await until('there is room', async () => (await create()).status === 201);
  });

  it('are in the audit log with who, where and how long, and nothing of what was typed or shown', async () => {
    const frames = await open();
    send(frames, { type: 'input', data: 'my secret' });
    await frames.next('output');
    await clock.advance(90_000);
    send(frames, { type: 'input', data: 'exit 0' });
    await frames.closed;
    const records = async () =>
      (await root.get('/audit?limit=100')).data.filter((it: { terminal: unknown }) => it.terminal !== null);
    await until('both are there', async () => (await records()).length === 2);
    const about = {
      route: 'WS /ws/terminal/:sessionId',
      user_id: owner.id,
      project_id: place.project,
      session_id: expect.any(String),
      source: expect.any(String),
      objects: [
        { kind: 'application', id: app, name: 'web' },
        { kind: 'assignment', id: instance },
      ],
    };
    const [closed, begun] = await records();
    expect(begun).toMatchObject({ ...about, terminal: { event: 'opened', seconds: null } });
    expect(closed).toMatchObject({
      ...about,
      terminal: { event: 'closed', seconds: 90, bytes_in: 15, bytes_out: 9, reason: 'exit' },
    });
    const log = await world.store.list({ prefix: keys.allAuditPending('default').prefix });
    expect(log.entries.map(({ value }) => value).join()).not.toContain('secret');
  });
});
