import { expect, test } from 'vitest';
import { engines } from '../../databases/engines.ts';
import { pgbouncer } from '../../databases/pgbouncer.ts';

const server = { host: 'orders-0a1b2c', port: 5432 };
const credentials = { username: 'app', password: 'say "hi" \\ %d$1;#', database: 'app' };

test('PostgreSQL alone has a pooler', () => {
  const pooled = Object.values(engines).filter(({ pooler }) => pooler !== undefined);
  expect(pooled.map(({ type }) => type)).toEqual(['postgres']);
});

test('the pooler lends a connection of the server for one transaction, and asks the server for passwords of other roles', () => {
  const [settings = ''] = Object.values(pgbouncer.files(server, credentials));
  const lines = settings.split('\n');
  expect(lines.slice(0, 2)).toEqual(['[databases]', '* = host=orders-0a1b2c port=5432']);
  for (const line of [
    '[pgbouncer]',
    `listen_port = ${pgbouncer.port}`,
    'pool_mode = transaction',
    'auth_type = scram-sha-256',
    'auth_user = app',
    'unix_socket_dir = ',
  ])
    expect(lines).toContain(line);
  expect(settings).toMatch(/auth_query = SELECT .* FROM pg_catalog\.pg_authid .*\$1/);
});

test('the password is in one file, quoted, and in no argument', () => {
  const files = pgbouncer.files(server, credentials);
  const having = Object.values(files).filter((text) => text.includes('say'));
  expect(having).toEqual([`${String.raw`"app" "say ""hi"" \ %d$1;#"`}\n`]);
  expect([...pgbouncer.entrypoint, ...pgbouncer.ready].join(' ')).not.toContain('say');
  expect(pgbouncer.entrypoint.some((word) => word in files)).toBe(true);
});

test('the files have the same paths whatever is in them', () => {
  const others = pgbouncer.files({ host: 'b', port: 1 }, { username: '', password: '', database: '' });
  expect(Object.keys(others)).toEqual(Object.keys(pgbouncer.files(server, credentials)));
});

test('with TLS it proves the server, and takes clients without it only where they may connect so', () => {
  const linesOf = (isEncrypted: boolean) =>
    Object.values(pgbouncer.files(server, credentials, { isEncrypted }))[0]?.split('\n') ?? [];
  for (const line of ['server_tls_sslmode = verify-full', 'client_tls_key_file = /etc/setpoint/tls.key'])
    expect(linesOf(false)).toContain(line);
  expect(
    [linesOf(false), linesOf(true)].map((lines) => lines.find((it) => it.startsWith('client_tls_sslmode'))),
  ).toEqual(['client_tls_sslmode = allow', 'client_tls_sslmode = require']);
  expect(Object.values(pgbouncer.files(server, credentials)).join('')).not.toContain('tls');
});
