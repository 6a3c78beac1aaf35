import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { WebSocket } from 'ws';
import { z } from 'zod';
import { brief, Installation } from '../harness/installation.ts';
import { inspected, liveBytesOf } from '../harness/inspector.ts';
import { processesWith, writtenBy } from '../harness/processes.ts';
import { freePort } from '../harness/program.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { standsStill } from '../harness/until.ts';
import { within } from '../harness/within.ts';
import { longTag } from '../layer-report.ts';

const Made = z.object({ sessionId: z.string() });
const Stored = z.object({ lines: z.array(z.object({ message: z.string() })) });
const lines = 300_000;
const slow = { logs: 8, terminals: 4 };
/**
 * What a process may hold more than before: 4 MiB for each slow reader. Each line has more than 200 bytes on the wire, so
 * that a process which holds the lines of one of them holds more.
 */
const mostBytes = (slow.logs + slow.terminals) * 4 * 1024 * 1024;

/** Readers that take nothing, of logs and of terminals, beside one that reads. */
describe('readers that stand still while very much is written', () => {
  let town: Installation;
  let app: string;
  let port: number;
  const closing: (() => void)[] = [];

  beforeAll(async () => {
    const { http } = await ensureTestImages();
    town = await Installation.start({ store: 'sqlite', env: inspected });
    port = await freePort();
    const web = { exposed_port: port, healthcheck_path: '/healthz', env: { PORT: String(port) } };
    app = (await town.createApplication({ ...brief, source_type: 'image', image_url: http, ...web })).id;
    await town.deployment((await town.deploy(app)).id, 'succeeded', 90_000);
  });
  afterAll(async () => {
    for (const close of closing) close();
    await town[Symbol.asyncDispose]();
  });

  async function terminal(typed: string) {
    const made = await town.client.request('POST', `/api/v1/servers/${town.server.id}/terminal`, { shell: '/bin/sh' });
    const socket = await town.client.socket(`/ws/terminal/${Made.parse(made).sessionId}`, {});
    closing.push(() => socket.terminate());
    socket.send(JSON.stringify({ type: 'input', data: `${typed}\r` }));
    return socket;
  }

  async function logs() {
    const socket = await town.client.socket(`/ws/applications/${app}/logs`, { tail: '0' });
    closing.push(() => socket.terminate());
    return socket;
  }

  /** Reads lines of the burst until the last one. */
  function reads(socket: WebSocket) {
    const seen = { next: 0, isWhole: true };
    const ended = new Promise<void>((resolve) => {
      socket.on('message', (data: Buffer) => {
        const frame = JSON.parse(data.toString()) as { type: string; message?: string }; // a frame of the API
        if (frame.type === 'gap') seen.isWhole = false;
        if (frame.type !== 'log' || frame.message?.startsWith('line ') !== true) return;
        seen.isWhole &&= frame.message === `line ${seen.next}`;
        seen.next++;
        if (frame.message === `line ${lines - 1}`) resolve();
      });
    });
    socket.resume();
    return { seen, ended };
  }

  it(
    'cost little memory, hold up neither lines nor keys of others, and get everything when they go on',
    { tags: [longTag], timeout: 300_000 },
    async () => {
      const [replica] = town.replicas;
      if (replica === undefined) throw new Error('The installation has a replica');
      const programs = { agent: town.agent, 'control plane': replica.program };
      const live = async (): Promise<Record<string, number>> => {
        const sizes = Object.entries(programs).map(async ([name, it]) => [name, await liveBytesOf(it)] as const);
        return Object.fromEntries(await Promise.all(sizes));
      };
      // What is compiled and cached for many lines stays in memory and counts as there before.
      await (await fetch(`http://127.0.0.1:${port}/burst/20000`)).text();
      await town.until('all of them are stored', async () => {
        const last = await town.client.request('GET', `/api/v1/applications/${app}/runtime-logs?tail=1`);
        return Stored.parse(last).lines[0]?.message === 'line 19999';
      });
      const before = await live();
      const grown: Record<string, number> = {};
      const measure = async (): Promise<void> => {
        for (const [name, bytes] of Object.entries(await live()))
          grown[name] = Math.max(grown[name] ?? 0, bytes - (before[name] ?? 0));
      };

      const standing: WebSocket[] = [];
      for (let n = 0; n < slow.logs; n++) standing.push(await logs()); // each stays paused
      for (let n = 0; n < slow.terminals; n++) await terminal(`yes ${n}-stands-still`);
      await standsStill('what the programs in slow terminals write', async () => {
        const writers = await processesWith('-stands-still');
        const written = await Promise.all(writers.map(writtenBy));
        return written.length === slow.terminals && !written.includes(0) ? written : undefined;
      });
      const reader = reads(await logs());
      void fetch(`http://127.0.0.1:${port}/burst/${lines}`);
      const typed = await terminal('echo st""ill here; exit 4');
      const shown: string[] = [];
      typed.on('message', (data: Buffer) => shown.push(data.toString()));
      typed.resume();
      await within('the other terminal answers', new Promise((resolve) => typed.once('close', resolve)), 60_000);
      expect(shown.join('')).toContain('still here');
      expect(shown.some((frame) => frame.includes('"exit"') && frame.includes('4'))).toBe(true);
      await measure();
      await within('the last line comes', reader.ended, 120_000);
      await measure();
      expect(reader.seen).toEqual({ next: lines, isWhole: true });
      for (const [name, bytes] of Object.entries(grown)) expect(bytes, name).toBeLessThan(mostBytes);

      const [first] = standing;
      if (first === undefined) throw new Error('Some readers stand still');
      const late = reads(first);
      await within('a reader that goes on gets the last line', late.ended, 120_000);
      expect(late.seen).toEqual({ next: lines, isWhole: true });
    },
  );
});
