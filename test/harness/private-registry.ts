import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from './program.ts';
import { until } from './until.ts';

const run = promisify(execFile);

/** Takes the names and digests of a registry from the images of the engine, which other tests have, too. */
async function forgetImagesOf(address: string): Promise<void> {
  const format = '{{.Repository}} {{.Tag}} {{.Digest}}';
  const { stdout } = await run('docker', ['image', 'ls', '--digests', '--format', format]);
  const own = stdout.split('\n').filter((line) => line.startsWith(`${address}/`));
  const rows = own.map((line) => line.split(' '));
  const digests = rows.flatMap(([name, , digest]) => (digest === '<none>' ? [] : `${name}@${digest}`));
  const tags = rows.flatMap(([name, tag]) => (tag === '<none>' ? [] : `${name}:${tag}`));
  for (const reference of new Set([...digests, ...tags])) await run('docker', ['rmi', '--no-prune', reference]);
}

/** The real registry of Debian on loopback, which asks for a login. */
export interface PrivateRegistry extends AsyncDisposable {
  /** `127.0.0.1:PORT`, which engines accept without TLS. */
  address: string;
  username: string;
  password: string;
  /** Pushes an image of the engine under that name and tag; returns the digest that the registry has it by. */
  push(image: string, name: string): Promise<string>;
  /** Lets a tag of an image lead to what the registry has by that digest, past the engine. */
  move(name: string, digest: string): Promise<void>;
  /** Ends the registry: it does not answer any more. */
  stop(): Promise<void>;
}

export async function privateRegistry(): Promise<PrivateRegistry> {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-registry-'));
  const port = await freePort();
  const [username, password] = ['reader', 'sesame-of-the-registry'];
  // The C library makes the bcrypt hash.
  const { stdout: hash } = await run('perl', ['-e', 'print crypt($ARGV[0], "\\$2b\\$05\\$".("a"x22))', password]);
  await writeFile(join(folder, 'htpasswd'), `${username}:${hash}\n`);
  const config = {
    version: 0.1,
    log: { level: 'error', accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: join(folder, 'data') } },
    http: { addr: `127.0.0.1:${port}` },
    auth: { htpasswd: { realm: 'test', path: join(folder, 'htpasswd') } },
  };
  await writeFile(join(folder, 'config.yml'), JSON.stringify(config));
  const server = spawn('docker-registry', ['serve', join(folder, 'config.yml')], { stdio: 'ignore' });
  const failed = once(server, 'error').then(([error]) => {
    throw new Error('Cannot start docker-registry', { cause: error });
  });
  const address = `127.0.0.1:${port}`;
  const answers = until('the registry answers', async () => (await fetch(`http://${address}/v2/`)).status === 401);
  await Promise.race([answers, failed]);
  const docker = (...args: string[]) =>
    run('docker', ['--config', join(folder, 'docker'), ...args], { maxBuffer: 16 * 1024 * 1024 });
  const auth = Buffer.from(`${username}:${password}`).toString('base64');
  await run('mkdir', ['-p', join(folder, 'docker')]);
  await writeFile(join(folder, 'docker', 'config.json'), JSON.stringify({ auths: { [address]: { auth } } }));
  const stop = async (): Promise<void> => {
    server.kill('SIGKILL');
    if (server.exitCode === null && server.signalCode === null) await once(server, 'exit');
  };
  return {
    address,
    username,
    password,
    async push(image, name) {
      const reference = `${address}/${name}`;
      await docker('tag', image, reference);
      const { stdout } = await docker('push', reference);
      await docker('rmi', '--no-prune', reference);
      const digest = /digest: (sha256:[0-9a-f]{64})/.exec(stdout)?.[1];
      if (digest === undefined) throw new Error(`No digest in ${stdout}`);
      return digest;
    },
    async move(name, digest) {
      const [repository, tag] = name.split(':');
      const manifests = `http://${address}/v2/${repository}/manifests`;
      const authorization = `Basic ${auth}`;
      const type = 'application/vnd.docker.distribution.manifest.v2+json';
      const found = await fetch(`${manifests}/${digest}`, { headers: { authorization, accept: type } });
      const body = await found.arrayBuffer();
      const headers = { authorization, 'content-type': type };
      const put = await fetch(`${manifests}/${tag}`, { method: 'PUT', headers, body });
      if (put.status !== 201) throw new Error(`The registry does not move ${name}: ${await put.text()}`);
    },
    stop,
    async [Symbol.asyncDispose]() {
      await forgetImagesOf(address);
      await stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
