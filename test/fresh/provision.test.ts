import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { createClient } from '../../cli/client.ts';
import { builtRelease } from '../harness/built-release.ts';
import { docker, machineAddress } from '../harness/engine.ts';
import { freePort, Program } from '../harness/program.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { until } from '../harness/until.ts';
import { startSystemdMachine } from './systemd-machine.ts';

const execute = promisify(execFile);
const minutes = 60_000;

/** A Debian with sshd and sudo, and neither an engine nor git: all else comes from an address and a key. */
test('a bare Debian becomes a server by SSH, as a user with sudo, and runs an application', async () => {
  await using stack = new AsyncDisposableStack();
  const release = await builtRelease();
  const { http: image } = await ensureTestImages();
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-provision-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const host = await machineAddress();
  const port = await freePort();
  const url = `http://${host}:${port}`;
  const flags = [
    '--listen',
    `${host}:${port}`,
    '--public-url',
    url,
    '--data',
    join(folder, 'server'),
    '--allow-plain-http',
  ];
  const own = ['--agent-release', release.folder, '--setup-token', 'off'];
  const server = new Program(['server', ...flags, ...own], join(folder, 'server.log'));
  server.start();
  stack.defer(() => server.kill());
  await server.ready(url);
  const visitor = createClient({ server: url, tenant: 'default' });
  const credentials = { email: 'owner@example.test', password: 'correct horse battery' };
  const registered = await visitor.request('POST', '/api/v1/auth/register', credentials);
  const { token } = z.object({ token: z.string() }).parse(registered);
  const client = createClient({ server: url, tenant: 'default', token });

  await execute('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(folder, 'key')]);
  const publicKey = (await readFile(join(folder, 'key.pub'), 'utf8')).trim();
  const machine = stack.use(
    await startSystemdMachine('bookworm', {
      further: ['openssh-server', 'sudo'],
      more: ['--volume', '/var/lib/docker'],
    }),
  );
  const run = async (line: string): Promise<string> => {
    const { code, stdout, stderr } = await machine.run(line);
    expect(code, `${line}: ${stderr}`).toBe(0);
    return stdout.trim();
  };
  await run(`useradd -m -s /bin/bash -p '*' ops && mkdir ~ops/.ssh && echo '${publicKey}' >~ops/.ssh/authorized_keys`);
  await run("chown -R ops ~ops/.ssh && echo 'ops ALL=(ALL) NOPASSWD:ALL' >/etc/sudoers.d/ops");
  // what the operator of this machine allows: a control plane without TLS, and an image that no registry has
  const allowed = `SETPOINT_ALLOW_PLAIN_HTTP=true\\nSETPOINT_LOCAL_IMAGES=setpoint-test/*\\n`;
  await run(`mkdir -p /etc/setpoint && printf '${allowed}' >/etc/setpoint/agent.env`);
  expect((await machine.run('command -v docker git iptables')).stdout).toBe('');

  const key = await client.object('POST', '/api/v1/settings/ssh-keys', {
    name: 'fleet',
    private_key: await readFile(join(folder, 'key'), 'utf8'),
  });
  const made = await client.object('POST', '/api/v1/servers', {
    name: 'one',
    ipAddress: machine.address,
    username: 'ops',
    sshKeyId: key.id,
    direct_ports_enabled: true,
  });
  const get = () => client.object('GET', `/api/v1/servers/${made.id}`);
  const explain = async (): Promise<string> =>
    [
      JSON.stringify(await get(), undefined, 1),
      (await machine.run('tail -n 40 /var/lib/setpoint/provision/log; journalctl --no-pager -n 60')).stdout,
    ].join('\n');
  const active = (what: string) =>
    until(what, async () => (await get()).status === 'active', { timeoutMs: 12 * minutes, explain });
  await active('the server is active');
  expect((await get())['runtime']).toBe('docker');
  expect(await run('systemctl is-active setpoint-agent docker')).toBe('active\nactive');
  expect(await run('systemctl is-enabled setpoint-agent docker')).toBe('enabled\nenabled');

  const saved = join(folder, 'image.tar');
  await docker('save', '--output', saved, image);
  await machine.copy(saved, '/root/image.tar');
  await run('docker load --input /root/image.tar');
  const project = await client.object('POST', '/api/v1/projects', { name: 'shop' });
  const [environment] = await client.list(`/api/v1/projects/${project.id}/environments`);
  const application = await client.object('POST', '/api/v1/applications', {
    name: 'web',
    project_id: project.id,
    environment_id: environment?.id,
    server_id: made.id,
    source_type: 'image',
    image_url: image,
    exposed_port: 8080,
    healthcheck_path: '/healthz',
    env: { PORT: '8080', GREETING: 'from a provisioned machine' },
  });
  await client.object('POST', `/api/v1/applications/${application.id}/deploy`, {});
  await until(
    'the application answers',
    async () => {
      const answer = await fetch(`http://${machine.address}:8080/env/GREETING`, { signal: AbortSignal.timeout(5000) });
      return (await answer.text()) === 'from a provisioned machine';
    },
    {
      timeoutMs: 3 * minutes,
      explain: async () =>
        JSON.stringify(await client.object('GET', `/api/v1/applications/${application.id}`), undefined, 1),
    },
  );

  // within what systemd lets the agent do
  const other = [
    '--env GREETING=moved',
    '--env PORT=9000',
    '--label traefik.http.services.old.loadbalancer.server.port=9000',
  ];
  await run(`docker run --detach --name old --volume rows:/data ${other.join(' ')} ${image}`);
  const placeOf = async (filter: string): Promise<string> =>
    run(`docker volume inspect --format '{{.Mountpoint}}' $(docker volume ls --quiet --filter ${filter})`);
  const rows = await placeOf('name=rows');
  await run(
    `mkdir ${rows}/shared && chown 999:998 ${rows}/shared && chmod 2770 ${rows}/shared && echo rows >${rows}/shared/table && mknod ${rows}/null c 1 3`,
  );
  await client.request('POST', `/api/v1/servers/${made.id}/adopt`, {
    project_id: project.id,
    take: ['old'],
    deploy: true,
  });
  await run('docker stop old');
  await until(
    'what was taken over answers',
    async () => {
      const answer = await fetch(`http://${machine.address}:9000/env/GREETING`, { signal: AbortSignal.timeout(5000) });
      return (await answer.text()) === 'moved';
    },
    {
      timeoutMs: 3 * minutes,
      explain: async () => JSON.stringify(await client.list('/api/v1/volumes'), undefined, 1),
    },
  );
  const copy = await placeOf('name=sp-vol-');
  expect(await run(`stat --format '%a %u %g' ${copy}/shared && cat ${copy}/shared/table && test -c ${copy}/null`)).toBe(
    '2770 999 998\nrows',
  );

  await machine.restart();
  await active('the server is active after a restart of its machine');
});
