import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hashControlKey } from '../../agent-protocol/control-proof.ts';
import { hashJoinToken, parseJoinToken } from '../../agent-protocol/join-token.ts';
import { putHeldRemovals } from '../../store/held-removals.ts';
import { keys } from '../../store/keys.ts';
import { writeEvents } from '../../store/event-ring.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';

let world: ApiWorld;
let owner: Client;

beforeAll(async () => {
  world = await startApi();
  owner = await world.owner();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

describe('removals that are held since the store was rewound', () => {
  const recordOf = async (id: string) => (await world.store.get(keys.removals('default', id)))?.value;

  it('are confirmed by an admin, once or twice, and not where nothing is held', async () => {
    const { server: id } = await world.place(owner);
    const path = `/servers/${id}/confirm-removals`;
    const nothing = await owner.post(path);
    expect(nothing.status).toBe(409);
    expect(nothing.body.error?.message).toBe('No removals are held on the server: there is nothing to confirm');

    await world.store.txn({ if: [], then: [putHeldRemovals('default', id, { held: 3, confirmed: false })] });
    const user = await world.user('user');
    expect((await user.post(path)).status).toBe(403);
    expect(await recordOf(id)).toBe('{"held":3,"confirmed":false}');
    for (let times = 0; times < 2; times += 1) {
      const answer = await owner.post(path);
      expect(answer.status).toBe(200);
      expect(answer.data).toEqual({ server_id: id, held: 3 });
      expect(await recordOf(id)).toBe('{"held":3,"confirmed":true}');
    }
  });

  it('are forgotten with the server', async () => {
    const { server: id } = await world.place(owner);
    await world.store.txn({ if: [], then: [putHeldRemovals('default', id, { held: 3, confirmed: false })] });
    const it = await world.repo.get('server', id);
    const unit = world.repo.begin();
    unit.requestDelete(it!);
    unit.release(it!, 'server');
    expect(await unit.commit()).toMatchObject({ committed: true });
    expect(await recordOf(id)).toBeUndefined();
  });
});

describe('a server', () => {
  it('is created from the names of the specification, with a token to join that is shown once', async () => {
    const made = await owner.post('/servers', {
      name: 'one',
      ipAddress: '192.0.2.1',
      port: 2222,
      username: 'ops',
      sshKeyId: null,
    });
    expect(made.status).toBe(201);
    const { id, join_token, install_command } = made.data;
    expect(made.data).toMatchObject({
      ip_address: '192.0.2.1',
      port: 2222,
      username: 'ops',
      ssh_key_id: null,
      status: 'provisioning',
      agent_status: 'unknown',
      agent_id: null,
      log_retention_days: 7,
      direct_ports_enabled: false,
    });
    expect(parseJoinToken(join_token)).toEqual({ serverId: id, controlKeyHash: hashControlKey('no key') });
    expect(install_command).toMatch(/^SETPOINT_JOIN_TOKEN=[^ ]+ setpoint agent --server https?:\/\/[^ /]+\/default$/);
    expect(install_command).toContain(`=${join_token} `);
    const stored = await world.repo.get('server', id);
    expect(stored?.desired.join_token_hash).toBe(hashJoinToken(join_token));
    expect(JSON.stringify((await owner.get(`/servers/${id}`)).data)).not.toContain(join_token);
    const renewed = await owner.post(`/servers/${id}/join-token`);
    expect(renewed.data.join_token).not.toBe(join_token);
  });

  it.each([
    [{ name: 'x', ipAddress: '-oProxyCommand=x' }, 'ipAddress'],
    [{ name: 'x', ipAddress: 'a b' }, 'ipAddress'],
    [{ name: 'x', port: 0 }, 'port'],
    [{ name: 'x', username: '-l' }, 'username'],
    [{ name: 'x', log_retention_days: 366 }, 'log_retention_days'],
    [{ name: 'x', sshKeyId: 'no' }, 'sshKeyId'],
    [{ name: ' x' }, 'name'],
    [{ name: 'x', status: 'active' }, 'status'],
  ])('is not created from %j', async (body, field) => {
    const answer = await owner.post('/servers', body);
    expect(answer.status).toBe(400);
    expect(answer.body.error?.details?.[0]?.field).toBe(field);
  });

  it('is one of a project that has anything on it', async () => {
    const project = (await owner.post('/projects', { name: 'on several servers' })).data.id;
    const ofProject = async (): Promise<string[]> =>
      (await owner.get(`/servers?projectId=${project}`)).data.map(({ id }: { id: string }) => id);
    expect(await ofProject()).toEqual([]);
    const made: [string, object][] = [
      ['/applications', { source_type: 'image', image_url: 'example/web:1' }],
      ['/databases', { type: 'redis' }],
      ['/functions', { runtime: 'node20', code: 'export default 1' }],
      ['/volumes', {}],
    ];
    const servers: string[] = [];
    for (const [path, fields] of made) {
      const server_id = (await owner.post('/servers', { name: `for ${path.slice(1)}` })).data.id;
      servers.push(server_id);
      expect((await owner.post(path, { project_id: project, server_id, name: 'it', ...fields })).status, path).toBe(
        201,
      );
    }
    expect((await ofProject()).toSorted()).toEqual(servers.toSorted());
  });

  it('changes what is sent', async () => {
    const { id } = (await owner.post('/servers', { name: 'two', ipAddress: '192.0.2.2' })).data;
    const changed = await owner.put(`/servers/${id}`, {
      ip_address: null,
      direct_ports_enabled: true,
      log_retention_days: 30,
    });
    expect(changed.data).toMatchObject({ ip_address: null, direct_ports_enabled: true, log_retention_days: 30 });
    expect((await owner.put(`/servers/${id}`, changed.data)).data.resource_version).toBe(changed.data.resource_version);
    expect((await owner.post('/servers', { name: 'TWO' })).status).toBe(409);
  });

  it('is seen by users of projects as id, name and status, and by others not at all', async () => {
    const { server } = await world.place(owner);
    const user = await world.user();
    expect((await user.get('/servers')).data).toEqual([]);
    expect((await user.get(`/servers/${server}`)).status).toBe(403);
    expect((await user.get(`/servers/${server}/agent-status`)).status).toBe(403);
    await user.post('/projects', { name: 'of a user' });
    const seen = (await user.get(`/servers/${server}`)).data;
    expect(Object.keys(seen)).toEqual(['id', 'name', 'status', 'agent_status']);
    expect((await user.get('/servers')).data).toContainEqual(seen);
    expect((await owner.get('/servers')).data[0]).toHaveProperty('ip_address');
    expect((await user.get(`/servers/${server}/agent-status`)).status).toBe(200);
    const refused = [
      await user.post('/servers', {}),
      await user.put(`/servers/${server}`, {}),
      await user.delete(`/servers/${server}`),
      await user.post(`/servers/${server}/ping`),
      await user.post(`/servers/${server}/join-token`),
      await user.get(`/servers/${server}/events`),
    ];
    expect(refused.map(({ status }) => status)).toEqual(refused.map(() => 403));
  });

  it('is deleted with workloads on it only by force', async () => {
    const { project, server } = await world.place(owner);
    const app = { project_id: project, server_id: server, name: 'web', source_type: 'image', image_url: 'example/web' };
    expect((await owner.post('/applications', app)).status).toBe(201);
    expect((await owner.delete(`/servers/${server}`)).status).toBe(409);
    const forced = await owner.delete(`/servers/${server}?force=true`);
    expect(forced.status).toBe(200);
    expect(forced.data.status).toBe('deleting');
    expect((await owner.post('/applications', { ...app, name: 'more' })).status).toBe(409);
  });

  it('shows whether its agent is connected, also in lists', async () => {
    const { server } = await world.place(owner);
    await world.repo.change('server', server, (draft) => void (draft.agent_public_key = 'x'));
    expect((await owner.get(`/servers/${server}`)).data.agent_status).toBe('disconnected');
    const live = JSON.stringify({ replica: 'r', session: 's', machineId: 'm', agentVersion: '9.9' });
    await world.store.txn({ if: [], then: [{ put: keys.agent('default', server), value: live }] });
    expect((await owner.get(`/servers/${server}/agent-status`)).data).toMatchObject({
      agent_status: 'connected',
      agent_version: '9.9',
    });
    const listed = (await owner.get('/servers?limit=500')).data.find((it: { id: string }) => it.id === server);
    expect(listed.agent_status).toBe('connected');
  });

  it('SEC-55 shows the state of an agent as unknown whose identity several agents have', async () => {
    const { server } = await world.place(owner);
    await world.repo.change('server', server, (draft) => void (draft.agent_public_key = 'x'));
    const live = JSON.stringify({ replica: 'r', session: 's', machineId: 'm', conflict: true });
    await world.store.txn({ if: [], then: [{ put: keys.agent('default', server), value: live }] });
    expect((await owner.get(`/servers/${server}/agent-status`)).data).toMatchObject({
      agent_status: 'unknown',
      conflict: true,
    });
    expect((await owner.get(`/servers/${server}`)).data.agent_status).toBe('unknown');
  });

  it('shows the connection of its agent, alone and among all', async () => {
    const { server: id } = await world.place(owner);
    const path = `/servers/${id}/tunnel-status`;
    const never = { connected: false, since: null, latency_ms: null, reconnects_24h: 0, last_error: null };
    expect((await owner.get(path)).data).toMatchObject({ server_id: id, agent_version: null, ...never });

    const at = new Date(Date.now() - 60_000).toISOString();
    const second = Math.floor(Date.now() / 1000);
    const record = { session: 's', again: [second - 90_000, second - 100, second - 50], lost: { at, why: 'Silent' } };
    const since = '2030-01-01T00:00:00.000Z';
    const live = JSON.stringify({ replica: 'r', session: 's', machineId: 'm', agentVersion: '9.9', since });
    await world.store.txn({
      if: [],
      then: [
        { put: keys.agent('default', id), value: live },
        { put: keys.connections('default', id), value: JSON.stringify(record) },
      ],
    });
    world.agents.measured.set(id, 12.5);
    const connected = {
      server_id: id,
      connected: true,
      since,
      latency_ms: 12.5,
      agent_version: '9.9',
      reconnects_24h: 2,
      last_error: { at, message: 'Silent' },
    };
    await world.settled();
    expect((await owner.get(path)).data).toEqual(connected);
    expect((await owner.get('/servers/tunnel-status/all')).data).toContainEqual(connected);

    await world.store.txn({ if: [], then: [{ delete: keys.agent('default', id) }] });
    await world.settled();
    const away = (await owner.get(path)).data;
    expect(away).toMatchObject({ connected: false, since: at, latency_ms: null, reconnects_24h: 2 });
    expect((await (await world.user()).get(path)).status).toBe(403);
  });

  it.each(['999.1.1.1', '1.2.3', '1.2.3.4.5', '12345', 'a..b', '-a', 'web.1', '::1::', 'fe80::1%eth0', 'a b', ''])(
    'has no address like %j',
    async (ipAddress) => {
      for (const field of ['ipAddress', 'ip_address']) {
        const answer = await owner.post('/servers', { name: crypto.randomUUID(), [field]: ipAddress });
        expect([answer.status, answer.body.error?.details?.[0]?.field]).toEqual([400, field]);
      }
    },
  );

  it.each(['192.0.2.7', '2001:db8::7', '::ffff:192.0.2.7', 'web-1', 'host.example.test', '1and1.example'])(
    'has an address like %s',
    async (ipAddress) => {
      const answer = await owner.post('/servers', { name: crypto.randomUUID(), ipAddress });
      expect([answer.status, answer.data.ip_address]).toEqual([201, ipAddress]);
    },
  );

  it('refers to no SSH key that is unknown, and keeps one that it has', async () => {
    const sshKeyId = crypto.randomUUID();
    const made = await owner.post('/servers', { name: crypto.randomUUID(), sshKeyId });
    expect([made.status, made.body.error?.details?.[0]?.field]).toEqual([404, 'sshKeyId']);
    const { server } = await world.place(owner);
    const changed = await owner.put(`/servers/${server}`, { ssh_key_id: sshKeyId });
    expect([changed.status, changed.body.error?.details?.[0]?.field]).toEqual([404, 'ssh_key_id']);
    await world.repo.change('server', server, (draft) => void (draft.ssh_key_id = sshKeyId));
    const { data } = await owner.get(`/servers/${server}`);
    expect((await owner.put(`/servers/${server}`, data)).status).toBe(200);
  });

  it('answers a ping through its agent, and 503 when that is away', async () => {
    const { server } = await world.place(owner);
    expect((await owner.post(`/servers/${server}/ping`)).status).toBe(503);
    world.agents.answer = () => ({});
    const answer = await owner.post(`/servers/${server}/ping`);
    world.agents.answer = undefined;
    expect(answer.data).toEqual({ server_id: server, reachable: true, latency_ms: expect.any(Number) });
  });

  it('shows what happened to it, newest first', async () => {
    const { server } = await world.place(owner);
    expect((await owner.get(`/servers/${server}/events`)).data).toEqual([]);
    const event = { type: 'normal', reason: 'Joined', message: 'm', count: 1, first_at: 'a', last_at: 'a' } as const;
    const value = writeEvents([event, { ...event, reason: 'Lost' }]);
    await world.store.txn({ if: [], then: [{ put: keys.events('default', 'server', server), value }] });
    const reasons = (await owner.get(`/servers/${server}/events`)).data.map((it: { reason: string }) => it.reason);
    expect(reasons).toEqual(['Lost', 'Joined']);
    const late = writeEvents([
      { ...event, reason: 'Now', last_at: 'c' },
      { ...event, reason: 'Late', last_at: 'b' },
    ]);
    await world.store.txn({ if: [], then: [{ put: keys.events('default', 'server', server), value: late }] });
    await world.settled();
    const { data } = await owner.get(`/servers/${server}/events`);
    expect(data.map((it: { reason: string }) => it.reason)).toEqual(['Now', 'Late']);
  });
});
