import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { WebSocket } from 'ws';
import { z } from 'zod';
import { Installation } from '../harness/installation.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { longTag } from '../layer-report.ts';

/** Writes 5,000 numbered lines a second until it is asked to stop, and how many they were at last. */
const script = `
  const begun = Date.now();
  let written = 0;
  const write = () => {
    let text = '';
    for (const due = (Date.now() - begun) * 5; written < due; written++) text += 'line ' + written + '\\n';
    process.stdout.write(text);
  };
  const timer = setInterval(write, 20);
  process.on('SIGTERM', () => {
    clearInterval(timer);
    write();
    process.stdout.write('in all ' + written + '\\n', () => process.exit(0));
  });
`;

const Line = z.object({ seq: z.int(), message: z.string(), instance_id: z.string() });
const Page = z.object({ lines: z.array(Line), next_cursor: z.string().nullable(), truncated: z.boolean() });
const Frame = z.looseObject({ type: z.string() });
const LogFrame = z.object({
  seq: z.int(),
  message: z.string(),
  source: z.object({ instance_id: z.string() }),
});
type Written = Map<string, string[]>;

/** The lines of an application through a redeployment, as a live reader gets them and as they are read afterwards. */
describe('5,000 lines a second through a redeployment', () => {
  let town: Installation;
  let app: string;

  beforeAll(async () => {
    const { http } = await ensureTestImages();
    town = await Installation.start({ store: 'sqlite' });
    app = (
      await town.createApplication({
        source_type: 'image',
        image_url: http,
        start_command: "/bin/node -e 'eval(process.env.SCRIPT)'",
        env: { SCRIPT: script },
        min_healthy_seconds: 3,
        drain_seconds: 2,
      })
    ).id;
  });
  afterAll(() => town[Symbol.asyncDispose]());

  /** What a live reader got, by the instance that wrote it. */
  function reads(socket: WebSocket) {
    const got = { by: new Map() as Written, last: 0, isOrdered: true, others: new Set<string>() };
    socket.on('message', (data: Buffer) => {
      const frame: unknown = JSON.parse(data.toString());
      const { type } = Frame.parse(frame);
      if (type !== 'log') return void got.others.add(type);
      const { seq, message, source } = LogFrame.parse(frame);
      got.isOrdered &&= seq > got.last;
      got.last = seq;
      add(got.by, source.instance_id, message);
    });
    socket.resume();
    return got;
  }

  function add(by: Written, instance: string, message: string): void {
    const known = by.get(instance);
    if (known === undefined) by.set(instance, [message]);
    else known.push(message);
  }

  /** All stored lines that match, from the first one on. */
  async function stored(query: Record<string, string> = {}): Promise<Written> {
    const by: Written = new Map();
    let last = 0;
    for (let cursor = '0'; ;) {
      const search = new URLSearchParams({ ...query, cursor, tail: '5000' });
      const page = Page.parse(
        await town.client.request('GET', `/api/v1/applications/${app}/runtime-logs?${search.toString()}`),
      );
      for (const { seq, message, instance_id } of page.lines) {
        expect(seq).toBeGreaterThan(last);
        last = seq;
        add(by, instance_id, message);
      }
      if (page.lines.length === 0 || page.next_cursor === null) return by;
      cursor = page.next_cursor;
    }
  }

  /** Where a line is not there once and in order, or the last one does not say how many they are, with those beside it. */
  function firstBreak(messages: readonly string[]): string | undefined {
    const count = messages.length - 1;
    const at = messages.findIndex((it, n) => it !== (n === count ? `in all ${count}` : `line ${n}`));
    return at === -1 ? undefined : `${at} of ${count}: ${messages.slice(Math.max(0, at - 2), at + 3).join(', ')}`;
  }

  const isOver = (messages: readonly string[] | undefined): boolean => messages?.at(-1)?.startsWith('in all ') === true;

  it(
    'come to a live reader once and in order, are stored so, and are those of their deployment',
    { tags: [longTag], timeout: 240_000 },
    async () => {
      const live = reads(await town.client.socket(`/ws/applications/${app}/logs`, { tail: '0' }));
      await town.until('the reader is told that what follows is live', async () => live.others.has('ready'));
      const first = await town.deploy(app);
      await town.deployment(first.id, 'succeeded');
      const second = await town.deploy(app);
      await town.deployment(second.id, 'succeeded');
      await town.until('the first instance has ended', async () => [...live.by.values()].some(isOver));
      await town.client.request('POST', `/api/v1/applications/${app}/stop`);
      await town.until('the second one has ended', async () => [...live.by.values()].every(isOver), 60_000);

      expect(live.by.size).toBe(2);
      for (const messages of live.by.values()) {
        expect(messages.length).toBeGreaterThan(15_000);
        expect(firstBreak(messages)).toBeUndefined();
      }
      expect(live.isOrdered).toBe(true);
      expect([...live.others]).toEqual(['ready']);

      expect(await stored()).toEqual(live.by);
      const [before, after] = [...live.by.keys()];
      const previous = await stored({ previous: 'true' });
      expect([...previous.keys()]).toEqual([before]);
      expect(previous.get(before!)).toEqual(live.by.get(before!));
      const ofSecond = await stored({ instance_id: after! });
      expect([...ofSecond]).toEqual([[after, live.by.get(after!)]]);
    },
  );
});
