import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { ApiObject } from '../../cli/client.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { brief, Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { ensureTestImages } from '../harness/test-image.ts';

const Page = z.object({
  lines: z.array(
    z.object({
      timestamp: z.string(),
      message: z.string(),
      source: z.object({ kind: z.string(), id: z.string(), name: z.string().nullable() }),
    }),
  ),
  next_cursor: z.string(),
  more: z.boolean(),
  truncated: z.boolean(),
});
type Page = z.infer<typeof Page>;
const Followed = z
  .object({ source: z.object({ id: z.string() }), message: z.string(), timestamp: z.string() })
  .transform(({ source, ...line }) => ({ ...line, source: source.id }));
const Storage = z.object({
  total_bytes: z.int(),
  retention_days: z.int(),
  max_bytes: z.int(),
  oldest_at: z.string(),
  workloads: z.array(z.object({ kind: z.string(), id: z.string(), name: z.string().nullable(), lines: z.int() })),
});

/** The logs of a server with the real engine. The tests tell one story: each begins where the one before ended. */
describe('the logs of a server', () => {
  let town: Installation;
  const apps: { app: ApiObject; port: number; written: string[] }[] = [];
  const closing = new AbortController();
  const followed: { source: string; message: string; timestamp: string }[] = [];

  beforeAll(async () => {
    const { http } = await ensureTestImages();
    town = await Installation.start({ store: 'sqlite', serverFlags: ['--log-level', 'warn'] });
    for (let n = 0; n < 2; n += 1) {
      const port = await freePort();
      const fields = { exposed_port: port, healthcheck_path: '/healthz', env: { PORT: String(port) } };
      const app = await town.createApplication({ ...brief, source_type: 'image', image_url: http, ...fields });
      await town.deployment((await town.deploy(app.id)).id, 'succeeded', 90_000);
      apps.push({ app, port, written: [] });
    }
  }, 240_000);
  afterAll(async () => {
    closing.abort();
    await town[Symbol.asyncDispose]();
  });

  async function read(query: Record<string, string>): Promise<Page> {
    const path = `/api/v1/servers/${town.server.id}/logs?${new URLSearchParams(query).toString()}`;
    return Page.parse(await town.client.request('GET', path));
  }

  async function storage(): Promise<z.infer<typeof Storage>> {
    return Storage.parse(await town.client.request('GET', `/api/v1/servers/${town.server.id}/logs/storage`));
  }

  /** Lets all applications write so many lines, in turn. */
  async function write(count: number): Promise<void> {
    for (let n = 0; n < count; n += 1)
      for (const { port, written } of apps) {
        const text = `tick ${written.length}`;
        await fetch(`http://127.0.0.1:${port}/log/${encodeURIComponent(text)}`);
        written.push(text);
      }
  }

  const ticks = (source: string): string[] =>
    followed.filter((line) => line.source === source && line.message.startsWith('tick')).map(({ message }) => message);

  async function allAreFollowed(): Promise<void> {
    await town.until(
      'the stream has all lines',
      async () => apps.every(({ app, written }) => ticks(app.id).length >= written.length),
      60_000,
    );
    for (const { app, written } of apps) expect(ticks(app.id)).toEqual(written);
  }

  it('are merged live, in the order of their times', async () => {
    void (async () => {
      for await (const frame of town.client.stream('/ws/logs', { tail: '500' }, closing.signal))
        if (frame['type'] === 'log') followed.push(Followed.parse(frame));
    })().catch(() => undefined);
    await town.until('the stream has begun', async () => followed.length >= 2);
    await write(20);
    await allAreFollowed();
    const times = followed.filter(({ message }) => message.startsWith('tick')).map(({ timestamp }) => timestamp);
    expect(times).toEqual(times.toSorted());
    const { lines } = await read({ search: 'tick' });
    expect(lines.map(({ timestamp }) => timestamp)).toEqual(times);
  });

  it('are each sent and read once, also what was written while the agent was dead', async () => {
    const { next_cursor: cursor } = await read({ kind: 'application' });
    await town.agent.kill();
    await write(30);
    town.agent.start();
    await write(10);
    await allAreFollowed();
    for (const from of [cursor, '0']) {
      const seen = new Map(apps.map(({ app }) => [app.id, [] as string[]]));
      let page: Page = { lines: [], next_cursor: from, more: true, truncated: false };
      while (page.more) {
        page = await read({ kind: 'application', search: 'tick', cursor: page.next_cursor, tail: '17' });
        expect(page.truncated).toBe(false);
        for (const { source, message } of page.lines) seen.get(source.id)?.push(message);
      }
      for (const { app, written } of apps)
        expect(seen.get(app.id)?.toSorted()).toEqual(written.slice(from === '0' ? 0 : 20).toSorted());
    }
  }, 120_000);

  it('have the lines of the agent, also those of before its end', async () => {
    const { lines } = await read({ source: 'agent', search: 'Agent started' });
    expect(lines).toHaveLength(2);
    expect(lines[0]?.source).toEqual({ kind: 'agent', id: town.server.id, name: 'one' });
  });

  it('outlive the containers that wrote them', async () => {
    const [first] = apps.map(({ app }) => app.id) as [string];
    await docker('rm', '--force', ...(await instancesOf(first)));
    expect((await read({ search: 'tick', tail: '5000' })).lines).toHaveLength(120);
    const { workloads, max_bytes, total_bytes } = await storage();
    expect(workloads.find(({ id }) => id === first)).toMatchObject({ kind: 'application' });
    expect(total_bytes).toBeLessThan(max_bytes);
  });

  it('go with the application that wrote them', async () => {
    const [first, second] = apps.map(({ app }) => app.id) as [string, string];
    await town.client.request('DELETE', `/api/v1/applications/${second}`);
    await town.until('its log is gone', async () => (await storage()).workloads.every(({ id }) => id !== second));
    expect((await read({ source: second, search: 'tick', tail: '5000' })).lines).toEqual([]);
    expect((await read({ source: first, search: 'tick', tail: '5000' })).lines).toHaveLength(60);
  });

  it('are kept as long as the server says, from the change of it on', async () => {
    expect((await storage()).retention_days).toBe(7);
    await town.client.object('PUT', `/api/v1/servers/${town.server.id}`, { log_retention_days: 30 });
    await town.until('the agent keeps them longer', async () => (await storage()).retention_days === 30, 10_000);
  });
});
