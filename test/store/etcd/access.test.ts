import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readEtcdAccess } from '../../../cli/etcd-access.ts';
import { parseConfig } from '../../../cli/parse-config.ts';
import { ServerConfig } from '../../../cli/server-config.ts';
import { isUnavailable } from '../../../store/errors.ts';
import type { EtcdAccess } from '../../../store/etcd/endpoints.ts';
import { keys } from '../../../store/keys.ts';
import { openStore } from '../../../store/open.ts';
import { after, changesUpTo, failureOf, put, write } from '../../contract/store-steps.ts';
import { createAuthority } from '../../harness/certificates.ts';
import type { Authority, Certificate } from '../../harness/certificates.ts';
import { startEtcdWithTls } from '../../harness/etcd.ts';
import type { EtcdServer } from '../../harness/etcd.ts';
import { temporaryFolder } from '../sqlite/temporary-folder.ts';

const running = new AsyncDisposableStack();
let authority: Authority;
let client: Certificate;
let etcd: EtcdServer;
let url: string;

beforeAll(async () => {
  authority = running.use(await createAuthority());
  client = await authority.issue('client');
  etcd = running.use(await startEtcdWithTls({ server: await authority.issue('server'), client }));
  url = `etcd://localhost:${etcd.port}`;
});
afterAll(() => running.disposeAsync());

/** As `setpoint server` makes it of its flags. */
function accessBy(flags: Record<string, string>): Promise<EtcdAccess> {
  return readEtcdAccess(parseConfig(ServerConfig, { store: url, ...flags }));
}

const withCertificate = ({ ca, cert, key }: Certificate) => ({ etcdCa: ca, etcdCert: cert, etcdKey: key });

async function expectRefusal(access: EtcdAccess): Promise<void> {
  expect(isUnavailable(await failureOf(openStore(url, access)))).toBe(true);
}

test('a replica that proves itself by a certificate is served over TLS', async () => {
  await using store = await openStore(url, await accessBy(withCertificate(client)));
  const at = await put(store, keys.meta('a'), '1');
  expect((await store.get(keys.meta('a')))?.value).toBe('1');
  const changes = changesUpTo(store, keys.all, after(at), after(at));
  await put(store, keys.meta('a'), '2');
  expect((await changes).map(({ value }) => value)).toEqual(['2']);
  const lease = await store.lease(2000);
  await write(store, { put: keys.meta('b'), value: '', lease: lease.id });
  await lease.revoke();
  expect(await store.get(keys.meta('b'))).toBeUndefined();
});

test('who has no certificate, one of another authority, or no TLS is refused', async () => {
  await using stranger = await createAuthority();
  const foreign = await stranger.issue('client');
  await expectRefusal(await accessBy({}));
  await expectRefusal(await accessBy({ etcdCa: client.ca }));
  await expectRefusal(await accessBy({ ...withCertificate(foreign), etcdCa: client.ca }));
  await expectRefusal(await accessBy({ ...withCertificate(client), etcdCa: foreign.ca }));
});

test('a user of etcd needs a right to our keys alone, and goes on when etcd forgot its token', async () => {
  await using folder = await temporaryFolder();
  const password = join(folder.path, 'password');
  await writeFile(password, 's3cret\n', { mode: 0o600 });
  for (const [user, secret] of [
    ['root', 'r00t'],
    ['setpoint', 's3cret'],
  ] as const)
    await etcd.etcdctl('user', 'add', `${user}:${secret}`);
  await etcd.etcdctl('user', 'grant-role', 'root', 'root');
  await etcd.etcdctl('role', 'add', 'setpoint');
  await etcd.etcdctl('role', 'grant-permission', 'setpoint', '--prefix=true', 'readwrite', '/setpoint/');
  await etcd.etcdctl('user', 'grant-role', 'setpoint', 'setpoint');
  await etcd.etcdctl('auth', 'enable');
  const flags = { ...withCertificate(client), etcdUser: 'setpoint', etcdPasswordFile: password };
  const access = await accessBy(flags);

  await using store = await openStore(url, access);
  const at = await put(store, keys.meta('u'), '1');
  expect((await store.list(keys.all)).entries.map(({ key }) => key)).toContain(keys.meta('u'));
  expect(await store.revision()).toBe(at);
  expect(await store.barrier()).toBe(after(at));
  expect((await store.size()).room).toBeGreaterThan(0);
  expect(await store.health()).toMatchObject({
    backend: 'etcd',
    alarms: [],
    members: [{ status: { isLeader: true } }],
  });
  expect(isUnavailable(await failureOf(store.get('/elsewhere')))).toBe(true);
  await expectRefusal({ ...access, login: { user: 'setpoint', password: 'wrong' } });

  await etcd.restart();
  await expect
    .poll(
      () =>
        store.get(keys.meta('u')).then(
          (it) => it?.value,
          () => undefined,
        ),
      { timeout: 10_000 },
    )
    .toBe('1');
  const from = after(await store.revision());
  const changes = changesUpTo(store, keys.all, from, from);
  const lease = await store.lease(2000);
  await write(store, { put: keys.meta('l'), value: 'x', lease: lease.id });
  expect((await changes).map(({ value }) => value)).toEqual(['x']);
  await lease.revoke();
});

test('an address cannot be certified, and is refused', async () => {
  const access = await accessBy(withCertificate(client));
  for (const host of ['127.0.0.1', '[::1]'])
    expect(await failureOf(openStore(`etcd://localhost:1,${host}:1`, access))).toBeInstanceOf(RangeError);
});

test('settings of etcd that do not go together are refused, each named', () => {
  const store = 'etcd://127.0.0.1:1';
  const faults = (given: object) => () => parseConfig(ServerConfig, given);
  expect(faults({ store, etcdCa: 'a', etcdCert: 'b' })).toThrow('--etcd-key: is needed with --etcd-cert');
  expect(faults({ store, etcdCert: 'b', etcdKey: 'c' })).toThrow('--etcd-ca: is needed with --etcd-cert');
  expect(faults({ store, etcdCa: 'a', etcdUser: 'u' })).toThrow('--etcd-password-file: is needed with --etcd-user');
  expect(faults({ store, etcdUser: 'u', etcdPasswordFile: 'p' })).toThrow('--etcd-ca: is needed with --etcd-user');
  expect(faults({ etcdCa: 'a' })).toThrow('--store: must be etcd://');
});

test('a file that is not there is named with its flag', async () => {
  expect(String(await failureOf(accessBy({ etcdCa: '/not/there.pem' })))).toContain(
    '--etcd-ca: /not/there.pem (ENOENT)',
  );
});
