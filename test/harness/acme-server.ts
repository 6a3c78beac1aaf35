import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createAuthority } from './certificates.ts';
import { freePort } from './program.ts';
import { until } from './until.ts';

/** An authority that gives certificates by ACME, and looks for every name on this machine. */
export interface AcmeServer extends AsyncDisposable {
  directory: string;
  /** Certificates of its own server, in PEM. */
  ca: string;
}

/** It gives no certificates for this domain. */
export const refusedDomain = 'refused.example.test';

/** @param validitySeconds of the certificates that it gives */
export async function startAcmeServer(ports: {
  http: number;
  https: number;
  validitySeconds: number;
}): Promise<AcmeServer> {
  await using stack = new AsyncDisposableStack();
  const authority = stack.use(await createAuthority());
  const { ca, cert, key } = await authority.issue('acme');
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-acme-'));
  stack.defer(() => rm(folder, { recursive: true }));
  const [port, names, management, administration] = await Promise.all([freePort(), freePort(), freePort(), freePort()]);
  const config = {
    pebble: {
      listenAddress: `127.0.0.1:${port}`,
      managementListenAddress: `127.0.0.1:${administration}`,
      certificate: cert,
      privateKey: key,
      httpPort: ports.http,
      tlsPort: ports.https,
      ocspResponderURL: '',
      domainBlocklist: [refusedDomain],
      externalAccountBindingRequired: false,
      profiles: { default: { description: 'of tests', validityPeriod: ports.validitySeconds } },
    },
  };
  await writeFile(join(folder, 'config.json'), JSON.stringify(config));
  const resolver = ['-dnsserver', `127.0.0.1:${names}`, '-defaultIPv4', '127.0.0.1', '-defaultIPv6', ''];
  const off = ['-http01', '', '-https01', '', '-tlsalpn01', '', '-doh', '', '-management', `127.0.0.1:${management}`];
  stack.defer(ended(spawn('pebble-challtestsrv', [...resolver, ...off], { stdio: 'ignore' })));
  const flags = ['-config', join(folder, 'config.json'), '-dnsserver', `127.0.0.1:${names}`];
  const env = { PATH: process.env['PATH'], PEBBLE_VA_NOSLEEP: '1', PEBBLE_WFE_NONCEREJECT: '0' };
  stack.defer(ended(spawn('pebble', flags, { stdio: 'ignore', env })));
  const directory = `https://localhost:${port}/dir`;
  await until('the authority answers', () => answers(port));
  const owned = stack.move();
  return { directory, ca: await readFile(ca, 'utf8'), [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

async function answers(port: number): Promise<boolean> {
  const { connect } = await import('node:net');
  const socket = connect(port, '127.0.0.1');
  const isOpen = await once(socket, 'connect').then(
    () => true,
    () => false,
  );
  socket.destroy();
  return isOpen;
}

function ended(child: ChildProcess): () => Promise<void> {
  const exited = new Promise<void>((resolve) => {
    child.on('exit', () => resolve());
    child.on('error', () => resolve());
  });
  return async () => {
    child.kill('SIGKILL');
    await exited;
  };
}
