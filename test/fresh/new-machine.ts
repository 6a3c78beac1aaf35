import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { createClient } from '../../cli/client.ts';
import type { Client } from '../../cli/client.ts';
import { builtRelease } from '../harness/built-release.ts';
import { machineAddress } from '../harness/engine.ts';
import { freePort, Program } from '../harness/program.ts';
import { until } from '../harness/until.ts';
import { startSystemdMachine } from './systemd-machine.ts';
import type { SystemdMachine } from './systemd-machine.ts';

const connectedMs = 60_000;

/** A control plane that serves the release, and a machine with systemd that has no agent yet. */
export interface NewMachine extends AsyncDisposable {
  /** Client of the first user. */
  client: Client;
  /** Address of this machine for containers. */
  host: string;
  machine: SystemdMachine;
  /** Id of the server that the machine is to become. */
  server: string;
  /** What installs the agent, for the shell of the machine. */
  installCommand: string;
  /** Resolves when the server's agent is connected. */
  connected: (what: string) => Promise<true>;
}

/** Starts both. The agent that is installed runs no containers. Needs root and `debootstrap`. */
export async function startNewMachine(suite: string): Promise<NewMachine> {
  await using started = new AsyncDisposableStack();
  const release = await builtRelease();
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-install-'));
  started.defer(() => rm(folder, { recursive: true, force: true }));
  const host = await machineAddress();
  const port = await freePort();
  const url = `http://${host}:${port}`;
  const flags = ['--listen', `${host}:${port}`, '--public-url', url, '--data', join(folder, 'server')];
  const own = ['--agent-release', release.folder, '--setup-token', 'off'];
  const controlPlane = new Program(['server', ...flags, ...own], join(folder, 'server.log'));
  controlPlane.start();
  started.defer(() => controlPlane.kill());
  await controlPlane.ready(url);
  const visitor = createClient({ server: url, tenant: 'default' });
  const credentials = { email: 'owner@example.test', password: 'correct horse battery' };
  const registered = await visitor.request('POST', '/api/v1/auth/register', credentials);
  const { token } = z.object({ token: z.string() }).parse(registered);
  const client = createClient({ server: url, tenant: 'default', token });

  const machine = started.use(await startSystemdMachine(suite));
  await machine.run('mkdir -p /etc/setpoint && echo SETPOINT_RUNTIME=mock >/etc/setpoint/agent.env');
  const made = await client.object('POST', '/api/v1/servers', { name: 'one' });
  const all = started.move();
  return {
    client,
    host,
    machine,
    server: made.id,
    installCommand: `${String(made['install_command'])} --allow-plain-http`,
    connected: (what) =>
      until(
        what,
        async () => (await client.object('GET', `/api/v1/servers/${made.id}`))['agent_status'] === 'connected',
        { timeoutMs: connectedMs, explain: async () => (await machine.run('journalctl --no-pager -n 60')).stdout },
      ),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}
