import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { brief, Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { until } from '../harness/until.ts';

const Value = z.number().nullable();
const Application = z.object({
  step_seconds: z.number(),
  points: z.array(
    z.object({
      timestamp: z.string(),
      cpu: z.object({ percent: Value }),
      memory: z.object({ used_bytes: Value }),
    }),
  ),
});
const Server = z.object({
  points: z.array(z.object({ timestamp: z.string(), cpu: z.object({ percent: Value }) })),
  workloads: z.array(z.object({ workload_id: z.string(), cpu: z.object({ percent: Value }) })),
});

/** Uses a part of a processor, so that the tests beside this one go on. */
const burn = 'while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.2; done';

/** From the counters of the kernel, through the agent and the control plane, to the user. */
describe('metrics', () => {
  let town: Installation;
  let busy: string;
  let quiet: string;

  beforeAll(async () => {
    const { http } = await ensureTestImages();
    town = await Installation.start({ store: 'sqlite' });
    [busy = '', quiet = ''] = await Promise.all([serving(http), serving(http)]);
  });
  afterAll(() => town[Symbol.asyncDispose]());

  async function serving(image: string): Promise<string> {
    const port = await freePort();
    const web = { exposed_port: port, healthcheck_path: '/healthz', env: { PORT: String(port) } };
    const { id } = await town.createApplication({ ...brief, source_type: 'image', image_url: image, ...web });
    await town.deployment((await town.deploy(id)).id, 'succeeded');
    return id;
  }

  const read = async (id: string) =>
    Application.parse(await town.client.request('GET', `/api/v1/applications/${id}/metrics?since=10m`));
  const readServer = async () =>
    Server.parse(await town.client.request('GET', `/api/v1/servers/${town.server.id}/metrics?since=10m`));
  const lastOf = async (id: string): Promise<number> => (await read(id)).points.at(-1)?.cpu.percent ?? -1;

  it('show which application uses the processor, and outlive the end of the agent', async () => {
    const made = (await town.client.request('POST', `/api/v1/applications/${busy}/terminal`, {
      command: ['/bin/sh', '-c', burn],
    })) as { sessionId: string };
    const terminal = await town.client.socket(`/ws/terminal/${made.sessionId}`, {});
    terminal.resume();
    await until(
      'one uses more than the other',
      async () => (await lastOf(busy)) > 5 + Math.max(0, await lastOf(quiet)),
      {
        timeoutMs: 60_000,
        everyMs: 1000,
      },
    );
    const { points, step_seconds } = await read(busy);
    expect(step_seconds).toBe(5);
    expect(points.at(-1)?.memory.used_bytes).toBeGreaterThan(1_000_000);
    const server = await readServer();
    expect(server.points.at(-1)?.cpu.percent).toBeGreaterThan(0);
    const [first] = server.workloads.toSorted((a, b) => (b.cpu.percent ?? 0) - (a.cpu.percent ?? 0));
    expect(first?.workload_id).toBe(busy);
    expect(server.workloads).toHaveLength(2);
    terminal.terminate();

    await town.agent.kill();
    town.agent.start();
    const known = new Set(points.map(({ timestamp }) => timestamp));
    const later = await until(
      'the agent measures again',
      async () => {
        const now = (await read(busy)).points.map(({ timestamp }) => timestamp);
        return now.length > known.size && now;
      },
      { timeoutMs: 60_000, everyMs: 1000 },
    );
    expect(later.filter((it) => known.has(it))).toEqual([...known]);
  }, 180_000);

  it('are streamed as they are measured', async () => {
    const stop = new AbortController();
    const frames: Record<string, unknown>[] = [];
    for await (const frame of town.client.stream(`/ws/servers/${town.server.id}/metrics`, {}, stop.signal)) {
      if (frame['type'] === 'metrics') frames.push(frame);
      if (frames.length === 2) break;
    }
    const [before, after] = frames.map((it) => Date.parse(String(it['timestamp'])));
    expect(after! - before!).toBeGreaterThan(3000);
    expect(frames[1]).toMatchObject({
      cpu: { percent: expect.any(Number) },
      memory: { percent: expect.any(Number) },
      disk: { percent: expect.any(Number) },
      network: { rx_bps: expect.any(Number) },
    });
  }, 60_000);
});
