import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { WebSocket } from 'ws';
import { z } from 'zod';
import type { ApiObject } from '../../cli/client.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { Installation } from '../harness/installation.ts';
import { processesWith } from '../harness/processes.ts';
import { freePort } from '../harness/program.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { within } from '../harness/within.ts';

const partitionMs = 3 * 60_000;
/** Three missed beats, and the one at which they are counted. */
const disconnectedMs = 25_000;
const offlineMs = 60_000;
/** After the network is whole again, everything has settled within this time. */
const settledMs = 60_000;

const Made = z.object({ sessionId: z.string() });
type Frame = Record<string, unknown>;

interface Service {
  app: ApiObject;
  port: number;
}

/** No packet passes between agent and control plane, and no connection ends: each side has to notice by itself. */
describe('a network that is cut in two for three minutes', () => {
  let town: Installation;
  let image: string;
  const sockets: WebSocket[] = [];

  beforeAll(async () => {
    ({ http: image } = await ensureTestImages());
    town = await Installation.start({ store: 'sqlite', withLink: true });
  });
  afterAll(async () => {
    for (const socket of sockets) socket.terminate();
    await town[Symbol.asyncDispose]();
  });

  async function serving(): Promise<Service> {
    const port = await freePort();
    const web = { exposed_port: port, healthcheck_path: '/healthz', env: { PORT: String(port), ROUND: '1' } };
    const app = await town.createApplication({ source_type: 'image', image_url: image, ...web });
    await town.deployment((await town.deploy(app.id)).id, 'succeeded', 90_000);
    return { app, port };
  }

  async function open(path: string, query: Record<string, string>) {
    const socket = await town.client.socket(path, query);
    sockets.push(socket);
    const frames: Frame[] = [];
    socket.on('message', (data: Buffer) => frames.push(JSON.parse(data.toString()) as Frame)); // frames of the API are objects
    const closed = new Promise<void>((resolve) => socket.on('close', () => resolve()));
    socket.resume();
    return { socket, frames, closed };
  }

  const answers = async ({ port }: Service): Promise<boolean> => (await fetch(`http://127.0.0.1:${port}/healthz`)).ok;
  const writes = ({ port }: Service, line: string) => fetch(`http://127.0.0.1:${port}/log/${line}`);
  const lifeOf = async ({ app }: Service): Promise<string> => {
    const ids = await instancesOf(app.id);
    return docker('inspect', '--format', '{{.Id}} {{.State.StartedAt}} {{.RestartCount}}', ...ids);
  };
  const server = (): Promise<ApiObject> => town.client.object('GET', `/api/v1/servers/${town.server.id}`);
  const readyOf = ({ conditions }: ApiObject) => conditions?.find(({ type }) => type === 'Ready');

  it('is told in time, stops nothing, and leaves everything as it is wanted when it is over', async () => {
    const [kept, repaired, changed, deleted] = [await serving(), await serving(), await serving(), await serving()];
    const before = await lifeOf(kept);
    const logs = await open('/ws/logs', { tail: '0' });
    const mark = `9${randomUUID().replaceAll(/\D/g, '').slice(0, 8)}`;
    const made = await town.client.request('POST', `/api/v1/servers/${town.server.id}/terminal`, { shell: '/bin/sh' });
    const terminal = await open(`/ws/terminal/${Made.parse(made).sessionId}`, {});
    terminal.socket.send(JSON.stringify({ type: 'input', data: `sleep ${mark}\r` }));
    await town.until(
      'a program runs in the terminal',
      async () => (await processesWith(`sleep\0${mark}`)).length === 1,
    );
    const lines = (): unknown[] =>
      logs.frames.flatMap(({ type, message }) =>
        type === 'log' && String(message).startsWith('line-') ? [message] : [],
      );
    await town.until('live lines come', async () => {
      await writes(kept, 'hello');
      return logs.frames.some(({ message }) => String(message).includes('hello'));
    });
    await writes(kept, 'line-before');
    await town.until('the line comes', async () => lines().length === 1);

    town.link?.partition();
    const healed = delay(partitionMs);
    await writes(kept, 'line-meanwhile');
    await town.until(
      'the agent is disconnected',
      async () => (await server())['agent_status'] === 'disconnected',
      disconnectedMs,
    );
    await within('the terminal ends', terminal.closed, disconnectedMs);
    const told = terminal.frames.find(({ type }) => type === 'error');
    expect(told).toMatchObject({ code: 'away', message: expect.stringContaining('agent') });
    await town.until('the log says that its source is away', async () =>
      logs.frames.some(({ type, state }) => type === 'source' && state === 'away'),
    );
    await town.until(
      'the agent ends the shell',
      async () => (await processesWith(`sleep\0${mark}`)).length === 0,
      disconnectedMs,
    );
    await expect(town.client.request('POST', `/api/v1/servers/${town.server.id}/ping`)).rejects.toThrow(
      /not connected/,
    );
    await town.until(
      'the server is offline, and of the application nothing is known',
      async () =>
        (await server()).status === 'offline' && readyOf(await town.application(kept.app.id))?.status === 'unknown',
      offlineMs,
    );

    // Both sides go on: the user changes what is wanted, and the agent keeps what was.
    await docker('rm', '--force', ...(await instancesOf(repaired.app.id)));
    await town.client.object('PUT', `/api/v1/applications/${changed.app.id}`, {
      env: { PORT: String(changed.port), ROUND: '2' },
    });
    const deployment = await town.deploy(changed.app.id);
    await town.client.request('DELETE', `/api/v1/applications/${deleted.app.id}`);
    await town.until('what was removed serves again', () => answers(repaired), 30_000);
    for (const service of [kept, changed, deleted]) expect(await answers(service)).toBe(true);

    await healed;
    town.link?.heal();
    await town.until(
      'the server is active',
      async () => {
        const it = await server();
        return it.status === 'active' && it['agent_status'] === 'connected';
      },
      settledMs,
    );
    await town.deployment(deployment.id, 'succeeded', settledMs);
    await town.until(
      'what is wanted is there',
      async () => {
        const apps = await town.client.list('/api/v1/applications');
        const gone = (await instancesOf(deleted.app.id)).length === 0 && apps.length === 3;
        return gone && apps.every(({ status }) => status === 'running');
      },
      settledMs,
    );
    const round = await fetch(`http://127.0.0.1:${changed.port}/env/ROUND`);
    expect(await round.text()).toBe('2');
    for (const { app } of [kept, repaired, changed]) expect(await instancesOf(app.id)).toHaveLength(1);
    expect(await lifeOf(kept)).toBe(before);
    await writes(kept, 'line-after');
    await town.until('all lines came, each once', async () => lines().length >= 3);
    expect(lines()).toEqual(['line-before', 'line-meanwhile', 'line-after']);
    const again = Made.parse(
      await town.client.request('POST', `/api/v1/servers/${town.server.id}/terminal`, { shell: '/bin/sh' }),
    );
    const user = await open(`/ws/terminal/${again.sessionId}`, {});
    user.socket.send(JSON.stringify({ type: 'input', data: 'exit 7\r' }));
    await within('the terminal ends', user.closed);
    expect(user.frames).toContainEqual({ type: 'exit', code: 7 });
  }, 900_000);
});
