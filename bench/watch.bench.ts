import { setTimeout as delay } from 'node:timers/promises';
import { until } from '../test/harness/until.ts';
import type { Bench } from './bench.ts';
import { Child } from './child.ts';
import { startControlPlane } from './control-plane.ts';
import { percentile } from './measure.ts';
import type { BroadcastMethods } from './programs/broadcast.ts';
import type { Arrivals, ReadersArgument, ReadersMethods } from './programs/readers.ts';

const readers = 1_000;
const changes = 5;
/** Wait between two changes, so that each begins at rest. */
const restMs = 150;

export const bench: Bench = {
  id: 'P6',
  async run({ compareAll }) {
    await using plane = await startControlPlane('file');
    const watch = `${plane.url.replace('http', 'ws')}/default/ws/watch?kinds=project&token=${plane.token}`;
    await using ours = await startReaders({ url: watch, count: readers, mark: '"cursor":"(?:[0-9a-f]{8}-)?(\\d+)"' });
    const size = JSON.stringify(await plane.client.object('GET', `/api/v1/projects/${plane.project.id}`)).length;
    await using broadcast = await Child.start<BroadcastMethods>('broadcast', { text: 'x'.repeat(size) });
    await using raw = await startReaders({ url: await broadcast.call('url'), count: readers, mark: '"mark":"(\\d+)"' });
    let n = 0;
    await compareAll({
      figures: {
        p50: {
          what: `commit to frame at ${readers} watchers, p50; raw: ws sends the same to as many`,
          unit: 'ms',
          goal: { atMost: 3, of: 'ours' },
        },
        p99: { what: 'the same, p99', unit: 'ms', goal: { atMost: 25, of: 'ours' } },
      },
      raw: () => deliver(raw, () => broadcast.call('send')),
      ours: () =>
        deliver(ours, async () => {
          const { at, revision } = await plane.child.call('describeProject', plane.project.id, `change ${(n += 1)}`);
          return { at, mark: String(revision) };
        }),
    });
  },
};

function startReaders(argument: ReadersArgument): Promise<Child<ReadersMethods>> {
  return Child.start<ReadersMethods>('readers', argument);
}

/** Measures the milliseconds from sending to each arrival, over several changes. */
async function deliver(
  to: Child<ReadersMethods>,
  send: () => Promise<{ at: number; mark: string }>,
): Promise<{ p50: number; p99: number }> {
  await to.call('take');
  const times: number[] = [];
  for (let change = 0; change < changes; change += 1) {
    const { at, mark } = await send();
    const found: Arrivals = { mark, at: [] };
    await until('every reader has the frame', async () => {
      const arrived = await to.call('take');
      for (const it of arrived) if (it.mark === mark) found.at.push(...it.at);
      return found.at.length >= readers;
    });
    times.push(...found.at.map((it) => it - at));
    await delay(restMs);
  }
  return { p50: percentile(times, 0.5), p99: percentile(times, 0.99) };
}
