import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { CheckResult } from '../../../agent-protocol/diagnosis.ts';
import { operationController } from '../../../controllers/operation/reconcile.ts';
import { connectMs, Machines } from '../../../controllers/ssh/machines.ts';
import type { LoginUnsealer } from '../../../controllers/ssh/login.ts';
import { networks } from '../../../network/address.ts';
import { createClient, startApi } from '../../harness/api.ts';
import type { ApiWorld, Client } from '../../harness/api.ts';
import { sendTogether } from '../../harness/send-together.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { InterruptibleStore } from '../../harness/interruptible-store.ts';
import { noInstallation } from '../../harness/no-machines.ts';
import { freePort } from '../../harness/program.ts';
import { lead as leadWith } from '../../harness/leading.ts';
import { startSshd } from '../../harness/sshd.ts';
import type { TestSshd } from '../../harness/sshd.ts';
import { until } from '../../harness/until.ts';
import { longTag } from '../../layer-report.ts';

let world: ApiWorld;
let store: InterruptibleStore;
let clock: FakeClock;
let owner: Client;
let leads: AsyncDisposable | undefined;

beforeEach(async () => {
  clock = new FakeClock();
  world = await startApi({ clock, wrap: (inner) => (store = new InterruptibleStore(inner)) });
  owner = await world.owner();
});
afterEach(async () => {
  await leads?.[Symbol.asyncDispose]();
  leads = undefined;
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

/** A leader that may log in to these networks of this machine. */
async function lead(allowed = ['127.0.0.0/8'], unsealer: LoginUnsealer = world.keyring): Promise<void> {
  const agents = { call: () => Promise.reject(new Error('No agent is called')) };
  const machines = new Machines({ clock, unsealer, isAllowed: networks(allowed) });
  leads = await leadWith(world, clock, operationController({ agents, machines, installation: noInstallation }));
}

async function keyOf(privateKey: string, name = 'key'): Promise<string> {
  const made = await owner.post('/settings/ssh-keys', { name, private_key: privateKey });
  expect(made.status).toBe(201);
  return made.data.id as string;
}

async function serverOn(sshd: Pick<TestSshd, 'port' | 'username' | 'privateKey'>, changes: object = {}) {
  const made = await owner.post('/servers', {
    name: 'machine',
    ipAddress: '127.0.0.1',
    port: sshd.port,
    username: sshd.username,
    sshKeyId: await keyOf(sshd.privateKey),
    ...changes,
  });
  expect(made.status).toBe(201);
  return made.data.id as string;
}

const validate = (server: string) => owner.post(`/servers/${server}/validate`, {});
const pinned = async (server: string) => (await owner.get(`/servers/${server}`)).data.host_key as unknown;
const statuses = (checks: CheckResult[]) => Object.fromEntries(checks.map(({ name, status }) => [name, status]));

describe('the validation of a server', () => {
  it('looks at its machine by a real sshd, and pins the host key that it shows', async () => {
    await using sshd = await startSshd();
    await lead();
    const server = await serverOn(sshd);
    expect(await pinned(server)).toBeNull();
    const { status, data } = await validate(server);
    expect(status).toBe(200);
    expect(data.host_key).toEqual({ type: 'ssh-ed25519', fingerprint: sshd.fingerprint, is_pinned: false });
    expect(statuses(data.checks)).toMatchObject({
      ssh: 'pass',
      host_key: 'pass',
      authentication: 'pass',
      privileges: 'pass',
      architecture: 'pass',
      git: 'pass',
    });
    expect(await pinned(server)).toEqual({ type: 'ssh-ed25519', fingerprint: sshd.fingerprint });
    expect((await validate(server)).data.host_key.is_pinned).toBe(true);
    const audit = (await owner.get('/audit')).data as { route: string; result: string }[];
    expect(audit[0]).toMatchObject({ route: 'POST /servers/:id/validate', result: 'ok' });
  });

  it('that is asked for several times at once, at two replicas, is one, and pins the key once', async () => {
    await using sshd = await startSshd();
    await lead();
    const server = await serverOn(sshd);
    const there = createClient(`${await world.replica()}/default/api/v1`, owner.token);
    sendTogether(store, 'operation', 2);
    const answers = await Promise.all([validate(server), there.post(`/servers/${server}/validate`, {})]);
    expect(answers.map(({ status, data }) => [status, data.host_key?.is_pinned])).toEqual(
      Array.from({ length: 2 }, () => [200, false]),
    );
    expect(world.mirror.tenant('default').by('operation', 'server', server)).toHaveLength(1);
    expect(await pinned(server)).toMatchObject({ fingerprint: sshd.fingerprint });
  });

  it('holds up no other change of the server', async () => {
    const server = await serverOn({ port: await freePort(), username: 'root', privateKey: await aPrivateKey() });
    const asked = validate(server);
    await until(
      'it has begun',
      async () => world.mirror.tenant('default').by('operation', 'server', server).length === 1,
    );
    expect((await owner.put(`/servers/${server}`, { name: 'renamed' })).status).toBe(200);
    await clock.advance(30_000);
    expect((await asked).status).toBe(503);
  });

  it('sends nothing to a machine that does not show the host key that the server was created with', async () => {
    await using sshd = await startSshd();
    await using other = await startSshd();
    await lead();
    const server = await serverOn(sshd, { host_key: { fingerprint: other.fingerprint } });
    expect(await pinned(server)).toEqual({ type: null, fingerprint: other.fingerprint });
    const { data } = await validate(server);
    expect(statuses(data.checks)).toMatchObject({ ssh: 'pass', host_key: 'fail', authentication: 'warn' });
    expect(await pinned(server)).toEqual({ type: null, fingerprint: other.fingerprint });
    const another = { name: 'two', host_key: { fingerprint: 'SHA256:short' } };
    expect((await owner.post('/servers', another)).status).toBe(400);
  });

  it('says so if the control plane cannot open the secret of the SSH key', async () => {
    await using sshd = await startSshd();
    const unsealer = {
      unseal: () => {
        throw new Error('No key for it');
      },
    };
    await lead(['127.0.0.0/8'], unsealer);
    const { status, data } = await validate(await serverOn(sshd));
    expect(status).toBe(200);
    const failed = data.checks.filter((one: CheckResult) => one.status === 'fail');
    expect(failed).toMatchObject([
      { name: 'authentication', message: 'The control plane cannot open the secret of its SSH key' },
    ]);
    expect(failed[0].remediation).toContain('master keys');
  });

  it('refuses a machine with another host key until an admin trusts it', async () => {
    let sshd = await startSshd();
    await lead();
    const server = await serverOn(sshd);
    await validate(server);
    const before = await pinned(server);
    const { port } = sshd;
    await sshd[Symbol.asyncDispose]();
    sshd = await startSshd({ port });
    try {
      const { data } = await validate(server);
      expect(data.status).toBe('fail');
      expect(data.host_key).toEqual({ type: 'ssh-ed25519', fingerprint: sshd.fingerprint, is_pinned: false });
      expect(statuses(data.checks)).toMatchObject({ ssh: 'pass', host_key: 'fail', authentication: 'warn' });
      expect(await pinned(server)).toEqual(before);
      const trusted = await owner.post(`/servers/${server}/trust-host-key`, { fingerprint: sshd.fingerprint });
      expect(trusted.data.host_key).toEqual({ type: null, fingerprint: sshd.fingerprint });
      // The other machine's user has another key.
      expect(statuses((await validate(server)).data.checks)).toMatchObject({
        host_key: 'pass',
        authentication: 'fail',
      });
      const { checks } = (await validate(server)).data;
      expect(checks.find(({ name }: { name: string }) => name === 'authentication').remediation).toContain(
        'setpoint describe ssh-key key',
      );
    } finally {
      await sshd[Symbol.asyncDispose]();
    }
  });

  it('tells nothing of what listens where there is no SSH server', { tags: [longTag] }, async () => {
    await lead();
    const server = await serverOn({ port: await freePort(), username: 'root', privateKey: await aPrivateKey() });
    let isOver = false;
    const asked = validate(server).finally(() => (isOver = true));
    const began = clock.monotonic();
    await until('it is answered', async () => {
      await clock.advance(500);
      return isOver;
    });
    expect(clock.monotonic() - began).toBeGreaterThanOrEqual(connectMs);
    const { data } = await asked;
    expect([data.status, data.host_key]).toEqual(['fail', null]);
    expect(data.checks[0]).toMatchObject({
      name: 'ssh',
      status: 'fail',
      message: 'No SSH server answers at its address and port',
    });
    expect(data.checks.slice(1).every(({ status }: CheckResult) => status === 'warn')).toBe(true);
    expect(await pinned(server)).toBeNull();
  });

  it('does not reach this machine by an address of its own, unless its operator allows it', async () => {
    await using sshd = await startSshd();
    await lead([]);
    const { data } = await validate(await serverOn(sshd));
    expect(data.checks[0]).toMatchObject({ name: 'ssh', status: 'fail' });
    expect(data.checks[0].remediation).toContain('--ssh-networks');
    expect(data.host_key).toBeNull();
  });

  it('needs an address and a key', async () => {
    const made = await owner.post('/servers', { name: 'bare' });
    const answer = await validate(made.data.id);
    expect([answer.status, answer.body.error?.message]).toEqual([409, expect.stringContaining('ip_address')]);
  });

  it('is possible five times within a minute', { tags: [longTag] }, async () => {
    await using sshd = await startSshd();
    await lead();
    const server = await serverOn(sshd);
    for (let n = 0; n < 5; n++) expect((await validate(server)).status).toBe(200);
    const sixth = await validate(server);
    expect([sixth.status, sixth.body.error?.message]).toEqual([429, expect.stringContaining('5 times')]);
  });

  it('is for admins, as is the trust', async () => {
    const server = (await owner.post('/servers', { name: 'bare' })).data.id as string;
    const user = await world.user();
    expect((await user.post(`/servers/${server}/validate`, {})).status).toBe(403);
    expect((await user.post(`/servers/${server}/trust-host-key`, { fingerprint: 'x' })).status).toBe(403);
  });
});

it.each(['SHA256:short', 'MD5:00:11', '', `SHA256:${'a'.repeat(44)}`])('%j is no fingerprint', async (fingerprint) => {
  const server = (await owner.post('/servers', { name: 'bare' })).data.id as string;
  expect((await owner.post(`/servers/${server}/trust-host-key`, { fingerprint })).status).toBe(400);
});

async function aPrivateKey(): Promise<string> {
  await using sshd = await startSshd();
  return sshd.privateKey;
}
