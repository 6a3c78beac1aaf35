import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { askHost } from './through-proxy.ts';
import { freePort } from './program.ts';
import { until } from './until.ts';

/**
 * Asks for a host by HTTP/3 at a UDP port of this machine: what comes to `port` is sent there. It is a Caddy, as Node has no
 * such client.
 */
export async function openHttp3Client(host: string, udpPort: number): Promise<{ port: number } & AsyncDisposable> {
  const port = await freePort();
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-http3-'));
  const handler = {
    handler: 'reverse_proxy',
    upstreams: [{ dial: `127.0.0.1:${udpPort}` }],
    headers: { request: { set: { Host: [host] } } },
    transport: { protocol: 'http', versions: ['3'], tls: { insecure_skip_verify: true, server_name: host } },
  };
  const servers = { only: { listen: [`127.0.0.1:${port}`], routes: [{ handle: [handler] }] } };
  const config = { admin: { disabled: true }, apps: { http: { servers } } };
  const path = join(folder, 'caddy.json');
  await writeFile(path, JSON.stringify(config));
  const env = { PATH: process.env['PATH'], HOME: folder };
  const child = spawn('caddy', ['run', '--config', path], { stdio: 'ignore', env });
  const exited = once(child, 'exit');
  await until('the client of HTTP/3 runs', async () => {
    const { status } = await askHost(`http://${host}/`, port);
    return status === 200;
  });
  return {
    port,
    async [Symbol.asyncDispose]() {
      child.kill();
      await exited;
      await rm(folder, { recursive: true, force: true });
    },
  };
}
