import { request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { ApiObject } from '../cli/client.ts';
import { engineSocket } from '../test/harness/docker.ts';
import { Installation } from '../test/harness/installation.ts';
import { freePort } from '../test/harness/program.ts';
import { ensureTestImages } from '../test/harness/test-image.ts';
import { until } from '../test/harness/until.ts';
import type { Bench } from './bench.ts';
import { Child } from './child.ts';
import { percentile } from './measure.ts';
import type { BroadcastMethods } from './programs/broadcast.ts';
import type { ReadersMethods } from './programs/readers.ts';
import { firstAnswer, rawContainers } from './raw-container.ts';

const rounds = 5;
const crowd = 100;
const burst = 200_000;
const crowdBurst = 5_000;
const ticks = 2_000;
const settleMs = 1_000;
const line = 'GET /some/path/of/a/page 200 in 12 ms, 3456 bytes, from 192.0.2.17';

/**
 * The program that writes lines. `/burst/<lines>` makes it write them at once, `/tick/<lines>` 10 of them every 10 ms,
 * each with its time. The last line of either is `end <n>`, where n counts the requests.
 */
const writer = `
  let requests = 0;
  const write = (text) => require("fs").writeSync(1, text);
  const block = ${JSON.stringify(`${line}\n`)}.repeat(1000);
  require("http").createServer((request, response) => {
    const [, verb, lines] = request.url.split("/");
    response.end();
    if (!verb) return;
    let left = Number(lines);
    const end = () => write("end " + ++requests + "\\n");
    if (verb === "burst") {
      for (; left > 0; left -= 1000) write(block);
      end();
    } else {
      const timer = setInterval(() => {
        for (let n = 0; n < 10; n += 1) write("at " + (performance.timeOrigin + performance.now()) + "\\n");
        left -= 10;
        if (left > 0) return;
        clearInterval(timer);
        end();
      }, 10);
    }
  }).listen(process.env.PORT || 8080);
`.replaceAll(/\s*\n\s*/g, ' ');
const mark = '(at \\d+\\.\\d+|end \\d+)';

/** A reader of lines: it counts all lines, and notes when lines with a mark arrived. */
interface Reading {
  lines(): Promise<number>;
  take(): Promise<{ mark: string; at: number[] }[]>;
}

export const bench: Bench = {
  id: 'P12',
  async run({ compareAll, compare }) {
    const { http: image } = await ensureTestImages();
    await using containers = await rawContainers(image);
    await using town = await Installation.start({ store: 'sqlite' });
    const bare = await containers.run({ Cmd: ['/bin/node', '-e', writer] });
    await firstAnswer(bare.url);
    using attached = await attach(bare.id);
    const { app, url } = await startWriter(town, image);
    await using socket = await readersOf(town, `/ws/applications/${app.id}/logs`, 1);

    await compareAll({
      figures: {
        p50: { what: 'line of a container, 1,000 per s, until it is at a WebSocket, p50; raw: attached', unit: 'ms' },
        p99: { what: 'the same, p99', unit: 'ms', goal: { atMost: 50, of: 'ours' } },
      },
      rounds,
      raw: async () => latencies((await ask(bare.url, `tick/${ticks}`, attached, 1)).marks),
      ours: async () => latencies((await ask(url, `tick/${ticks}`, socket, 1)).marks),
    });
    await compareAll({
      figures: {
        perSecond: {
          what: `${burst} lines written at once, at one WebSocket; raw: attached`,
          unit: 'per s',
          goal: { atLeast: 100_000, of: 'ours' },
        },
        lost: { what: 'the same, lines that did not come', unit: 'lines', goal: { atMost: 0, of: 'ours' } },
      },
      rounds,
      raw: async () => ({ perSecond: (await rateOf(bare.url, attached, burst, 1)).perSecond }),
      ours: () => rateOf(url, socket, burst, 1),
    });

    await using whole = await readersOf(town, `/ws/servers/${town.server.id}/logs`, 1, { kind: 'application' });
    await compareAll({
      figures: {
        perSecond: { what: 'as many lines, at one WebSocket of all lines of the server; raw: attached', unit: 'per s' },
        lost: { what: 'the same, lines that did not come', unit: 'lines', goal: { atMost: 0, of: 'ours' } },
      },
      rounds,
      raw: async () => ({ perSecond: (await rateOf(bare.url, attached, burst, 1)).perSecond }),
      ours: () => rateOf(url, whole, burst, 1),
    });

    await using readers = await readersOf(town, `/ws/applications/${app.id}/logs`, crowd);
    await using broadcast = await Child.start<BroadcastMethods>('broadcast', { text: 'x'.repeat(300) });
    const others = { url: await broadcast.call('url'), count: crowd, mark: 'no mark' };
    await using plain = await Child.start<ReadersMethods>('readers', others);
    await compare({
      what: `${crowdBurst} lines at ${crowd} WebSockets, deliveries; raw: ws sends to as many`,
      unit: 'per s',
      goal: { atLeast: 150_000, of: 'ours' },
      rounds,
      raw: async () => {
        const before = await plain.call('frames');
        const start = performance.now();
        await broadcast.call('flood', crowdBurst);
        const all = before + crowdBurst * crowd;
        await until('all frames came', async () => (await plain.call('frames')) >= all, { everyMs: 5 });
        return (crowdBurst * crowd * 1000) / (performance.now() - start);
      },
      ours: async () => (await rateOf(url, readers, crowdBurst, crowd)).perSecond,
    });
  },
};

async function startWriter(town: Installation, image: string): Promise<{ app: ApiObject; url: string }> {
  const port = await freePort();
  const start_command = `/bin/node -e '${writer}'`;
  const how = { start_command, exposed_port: port, healthcheck_path: '/', env: { PORT: String(port) } };
  const app = await town.createApplication({ source_type: 'image', image_url: image, ...how });
  const deployment = await town.deploy(app.id);
  await town.deployment(deployment.id, 'succeeded');
  return { app, url: `http://127.0.0.1:${port}/` };
}

async function readersOf(
  town: Installation,
  path: string,
  count: number,
  more: Record<string, string> = {},
): Promise<Reading & AsyncDisposable> {
  const query = new URLSearchParams({ token: town.client.connection.token ?? '', tail: '0', ...more });
  const url = `${town.url().replace('http', 'ws')}/default${path}?${query.toString()}`;
  const child = await Child.start<ReadersMethods>('readers', { url, count, mark, counted: '"type":"log"' });
  await delay(settleMs);
  return {
    lines: () => child.call('frames'),
    take: () => child.call('take'),
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  };
}

/** Makes the writer write lines, and waits until every reader has the last one. */
async function ask(
  url: string,
  what: string,
  by: Reading,
  readers: number,
): Promise<{ ms: number; lines: number; marks: { mark: string; at: number[] }[] }> {
  await by.take();
  const [before, start] = [await by.lines(), performance.timeOrigin + performance.now()];
  await fetch(url + what);
  const marks: { mark: string; at: number[] }[] = [];
  const ends = (): number[] => marks.flatMap((it) => (it.mark.startsWith('end') ? it.at : []));
  await until('the last line came', async () => {
    marks.push(...(await by.take()));
    return ends().length >= readers;
  });
  return { ms: Math.max(...ends()) - start, lines: (await by.lines()) - before, marks };
}

async function rateOf(url: string, by: Reading, lines: number, readers: number) {
  const { ms, lines: came } = await ask(url, `burst/${lines}`, by, readers);
  // The line that marks the end is one more.
  const delivered = came - readers;
  return { perSecond: (delivered * 1000) / ms, lost: lines * readers - delivered };
}

function latencies(marks: readonly { mark: string; at: number[] }[]): { p50: number; p99: number } {
  const times = marks.flatMap((it) =>
    it.mark.startsWith('at ') ? it.at.map((at) => at - Number(it.mark.slice(3))) : [],
  );
  return { p50: percentile(times, 0.5), p99: percentile(times, 0.99) };
}

/** Reads the output of a container as it comes, by a hijacked connection to the engine. */
async function attach(id: string): Promise<Reading & Disposable> {
  const opened = Promise.withResolvers<() => void>();
  const path = `/v1.41/containers/${id}/attach?stream=1&stdout=1`;
  const headers = { host: 'engine', connection: 'Upgrade', upgrade: 'tcp' };
  let lines = 0;
  let marks: { mark: string; at: number[] }[] = [];
  const asked = request({ socketPath: engineSocket, method: 'POST', path, headers });
  asked.on('upgrade', (_answer, socket) => {
    socket.on('error', () => undefined); // the container is gone
    socket.on('data', (data: Buffer) => {
      const now = performance.timeOrigin + performance.now();
      for (let at = data.indexOf(0x0a); at >= 0; at = data.indexOf(0x0a, at + 1)) lines += 1;
      const text = data.length < 4096 ? data : data.subarray(-200);
      for (const [, found = ''] of text.toString('latin1').matchAll(new RegExp(mark, 'g')))
        marks.push({ mark: found, at: [now] });
    });
    opened.resolve(() => socket.destroy());
  });
  asked.on('error', opened.reject);
  asked.end();
  const close = await opened.promise;
  return {
    lines: async () => lines,
    async take() {
      const taken = marks;
      marks = [];
      return taken;
    },
    [Symbol.dispose]: close,
  };
}
