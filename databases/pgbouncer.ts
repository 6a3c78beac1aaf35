import { authorityFile, certificateFile, keyFile } from './engine.ts';
import type { Pooler } from './engine.ts';

const port = 6432;
const [settingsFile, usersFile] = ['/etc/setpoint/pgbouncer.ini', '/etc/setpoint/users.txt'];

/**
 * The password of any role that may log in, as the server stores it, with which its client is let in and logged in to the server.
 * Names are looked up in the catalogue alone, whatever a role has put into its path.
 */
const authQuery =
  'SELECT rolname, CASE WHEN rolvaliduntil OPERATOR(pg_catalog.<) pg_catalog.now() THEN NULL ELSE rolpassword END ' +
  'FROM pg_catalog.pg_authid WHERE rolname OPERATOR(pg_catalog.=) $1 AND rolcanlogin';

/** Seconds after which it looks for the server again, where it could not log in. */
const lookAgainSeconds = '1';

/** PgBouncer 1.21 or later. A connection to the server is a client's for one transaction. */
export const pgbouncer: Pooler = {
  word: 'PgBouncer',
  image: 'edoburu/pgbouncer:v1.24.1-p1',
  port,
  entrypoint: ['pgbouncer', settingsFile],
  ready: ['psql', '-XqtA', '-p', String(port), '-c', 'SELECT 1'],
  files: (server, { username, password }, encryption) => ({
    [settingsFile]: textOf({
      databases: { '*': `host=${server.host} port=${server.port}` },
      pgbouncer: {
        listen_addr: '*',
        listen_port: String(port),
        unix_socket_dir: '',
        auth_type: 'scram-sha-256',
        auth_file: usersFile,
        auth_user: username,
        auth_query: authQuery,
        pool_mode: 'transaction',
        max_client_conn: '1000',
        // each user and database; with the least max_connections some are left for others
        default_pool_size: '15',
        max_prepared_statements: '200',
        query_wait_timeout: '120',
        server_login_retry: lookAgainSeconds,
        dns_max_ttl: lookAgainSeconds,
        dns_nxdomain_ttl: lookAgainSeconds,
        // drivers of Java send it
        ignore_startup_parameters: 'extra_float_digits',
        log_connections: '0',
        log_disconnections: '0',
        log_stats: '0',
        ...(encryption !== undefined && {
          server_tls_sslmode: 'verify-full',
          server_tls_ca_file: authorityFile,
          client_tls_sslmode: encryption.isEncrypted ? 'require' : 'allow',
          client_tls_cert_file: certificateFile,
          client_tls_key_file: keyFile,
        }),
      },
    }),
    [usersFile]: `${quoted(username)} ${quoted(password)}\n`,
  }),
  // ends once no transaction goes on
  stopSignal: 'SIGINT',
  graceSeconds: 30,
  memoryBytes: 256 * 1024 ** 2,
  // of clients and of the server
  openFiles: 4096,
};

function textOf(sections: Readonly<Record<string, Readonly<Record<string, string>>>>): string {
  return Object.entries(sections)
    .map(([name, values]) =>
      [`[${name}]`, ...Object.entries(values).map(([key, value]) => `${key} = ${value}`), ''].join('\n'),
    )
    .join('\n');
}

function quoted(text: string): string {
  return `"${text.replaceAll('"', '""')}"`;
}
