import { once } from 'node:events';
import { createServer } from 'node:http';
import type { RequestListener, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pino } from 'pino';
import { afterEach, describe, expect, it } from 'vitest';
import type { Execution } from '../../../agent-protocol/functions.ts';
import { Activator, lastWordsMs } from '../../../agent/functions/activator.ts';
import type { Call } from '../../../agent/functions/call.ts';
import { forward } from '../../../agent/functions/forward.ts';
import { idleMs, mostWaiting, mostWaitMs, shortLifeMs } from '../../../agent/functions/pool.ts';
import type { Launched, PoolSettings } from '../../../agent/functions/pool.ts';
import { FakeClock } from '../../harness/fake-clock.ts';

const log = pino({ level: 'silent' });
const open: Server[] = [];
afterEach(async () => {
  for (const server of open.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

/** Instances of a function that answer as the listener does, and can be ended. */
class Machine {
  readonly clock = new FakeClock();
  readonly records: Execution[] = [];
  readonly activator = new Activator({
    clock: this.clock,
    log,
    record: (execution) => void this.records.push(execution),
    lastLines: () => ['the last line'],
    changed: () => undefined,
    forward,
  });
  launches = 0;
  ready = 0;
  stopped = 0;
  readonly ends: ((end: { outOfMemory: boolean }) => void)[] = [];

  serve(
    listener: RequestListener,
    settings: Partial<PoolSettings> = {},
    signal = new AbortController().signal,
  ): Promise<void> {
    const usual = {
      version: 'one',
      concurrency: 1,
      minInstances: 0,
      maxInstances: 2,
      timeoutMs: 1000,
      launch: () => this.launch(listener),
    };
    return this.activator.become({ ...usual, ...settings }, signal);
  }

  async launch(listener: RequestListener): Promise<Launched> {
    this.launches += 1;
    const server = createServer(listener);
    open.push(server);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    this.ready += 1;
    const { promise: ended, resolve } = Promise.withResolvers<{ outOfMemory: boolean }>();
    this.ends.push((end) => {
      resolve(end);
      server.closeAllConnections();
    });
    return {
      address: '127.0.0.1',
      port: (server.address() as AddressInfo).port,
      ended,
      stop: async () => {
        this.stopped += 1;
      },
    };
  }

  /** Resolves with the status and the text of the answer. */
  async call(
    more: Partial<Call> = {},
    signal = new AbortController().signal,
  ): Promise<{ status: number; body: string }> {
    let answered = { status: 0, body: '' };
    const call: Call = {
      trigger: 'http',
      method: 'POST',
      path: '/',
      headers: { host: 'hello.test' },
      body: Buffer.alloc(0),
      answer: async ({ status, body }) => {
        answered = { status, body: await text(body) };
      },
      ...more,
    };
    await this.activator.call(call, signal);
    return answered;
  }

  get last(): Execution | undefined {
    return this.records.at(-1);
  }
}

const hello: RequestListener = (request, response) => {
  response.end(`${request.method} ${request.url} ${request.headers.host}`);
};

describe('the activator', () => {
  it('starts an instance for the first call, keeps it for the next, and ends it once none comes', async () => {
    const machine = new Machine();
    await machine.serve(hello);
    expect(machine.launches).toBe(0);
    expect(await machine.call({ path: '/a?b=1' })).toEqual({ status: 200, body: 'POST /a?b=1 hello.test' });
    expect(machine.last).toMatchObject({ status: 'succeeded', cold_start: true, status_code: 200, version_id: 'one' });
    expect(machine.last?.path).toBe('/a');
    await machine.call();
    expect(machine.last).toMatchObject({ status: 'succeeded', cold_start: false });
    expect(machine.launches).toBe(1);
    await machine.clock.advance(idleMs - 1);
    expect(machine.stopped).toBe(0);
    await machine.clock.advance(1);
    expect([machine.stopped, machine.activator.size]).toEqual([1, 0]);
  });

  it('keeps as many as must be there, also while nothing calls', async () => {
    const machine = new Machine();
    await machine.serve(hello, { minInstances: 2 });
    await expect.poll(() => machine.ready).toBe(2);
    await machine.clock.advance(0);
    await machine.call();
    expect(machine.last?.cold_start).toBe(false);
    await machine.clock.advance(2 * idleMs);
    expect(machine.stopped).toBe(0);
  });

  it('streams a request and its answer, without the headers of a connection', async () => {
    const machine = new Machine();
    await machine.serve((request, response) => {
      response.setHeader('x-seen', JSON.stringify([request.headers['x-setpoint-trigger'], request.headers['upgrade']]));
      request.pipe(response);
    });
    let headers: object = {};
    let got = '';
    await machine.call({
      headers: { host: 'h', upgrade: 'x', 'x-setpoint-trigger': 'forged' },
      body: Readable.from([Buffer.from('one '), Buffer.from('two')], { objectMode: false }),
      answer: async (reply) => {
        headers = reply.headers;
        got = await text(reply.body);
      },
    });
    expect(got).toBe('one two');
    expect(headers).toMatchObject({ 'x-seen': '["http",null]' });
    expect(headers).not.toHaveProperty('connection');
  });

  it('answers no more calls at once than an instance takes, and has the others wait or makes another one', async () => {
    const machine = new Machine();
    const answers: (() => void)[] = [];
    await machine.serve((_, response) => void answers.push(() => response.end('ok')), {
      concurrency: 1,
      maxInstances: 2,
    });
    const calls = [machine.call(), machine.call(), machine.call()];
    await expect.poll(() => answers.length).toBe(2);
    expect(machine.launches).toBe(2);
    answers[0]?.();
    await expect.poll(() => answers.length).toBe(3);
    for (const answer of answers) answer();
    expect((await Promise.all(calls)).map(({ body }) => body)).toEqual(['ok', 'ok', 'ok']);
    expect(machine.launches).toBe(2);
  });

  it('refuses a call when too many wait', async () => {
    const machine = new Machine();
    await machine.serve(hello, { launch: () => new Promise(() => undefined) });
    const waiting = Array.from({ length: mostWaiting }, () => machine.call().catch((error: unknown) => error));
    await expect(machine.call()).rejects.toMatchObject({ code: 'queue_full', status: 503, retryAfter: 1 });
    // of many that are refused one is recorded each second
    await expect(machine.call()).rejects.toMatchObject({ code: 'queue_full' });
    expect(machine.records).toHaveLength(1);
    await machine.clock.advance(1000);
    await expect(machine.call()).rejects.toMatchObject({ code: 'queue_full' });
    expect(machine.records).toHaveLength(2);
    await expect(machine.call({ trigger: 'cron' })).rejects.toMatchObject({ code: 'queue_full' });
    expect(machine.records).toHaveLength(3);
    expect(machine.last).toMatchObject({ trigger: 'cron', status: 'failed', error: { code: 'queue_full' } });
    machine.activator.abandon();
    expect(await Promise.all(waiting)).toHaveLength(mostWaiting);
  });

  it('refuses a call that has waited too long for its turn, and ends no instance for that', async () => {
    const machine = new Machine();
    await machine.serve(() => undefined, { maxInstances: 1, timeoutMs: 600_000 });
    const hanging = machine.call().catch((error: unknown) => error);
    await expect.poll(() => machine.ready).toBe(1);
    await machine.clock.advance(0);
    const waiting = machine.call();
    const refused = expect(waiting).rejects.toMatchObject({ code: 'queue_full', status: 503, retryAfter: 1 });
    await machine.clock.advance(mostWaitMs - 1);
    expect(machine.records.some(({ error }) => error?.code === 'queue_full')).toBe(false);
    await machine.clock.advance(1);
    await refused;
    expect(machine.stopped).toBe(0);
    machine.ends[0]?.({ outOfMemory: false });
    await hanging;
    machine.activator.abandon();
  });

  it('lets a call by the schedule wait for its turn until its task ends', async () => {
    const machine = new Machine();
    const answers: (() => void)[] = [];
    await machine.serve((_, response) => void answers.push(() => response.end('ok')), {
      maxInstances: 1,
      timeoutMs: 600_000,
    });
    const long = machine.call();
    await expect.poll(() => answers.length).toBe(1);
    const fired = machine.call({ trigger: 'cron' });
    const task = new AbortController();
    const late = expect(machine.call({ trigger: 'cron' }, task.signal)).rejects.toMatchObject({ code: 'client_gone' });
    await machine.clock.advance(2 * mostWaitMs);
    expect(machine.records.some(({ trigger }) => trigger === 'cron')).toBe(false);
    task.abort();
    await late;
    expect(machine.last).toMatchObject({ trigger: 'cron', status: 'failed', error: { code: 'client_gone' } });
    answers[0]?.();
    await long;
    await expect.poll(() => answers.length).toBe(2);
    answers[1]?.();
    expect((await fired).body).toBe('ok');
    expect(machine.last).toMatchObject({ trigger: 'cron', status: 'succeeded' });
  });

  it('answers for a handler that is late, and gives its instance no further call', async () => {
    const machine = new Machine();
    await machine.serve((request, response) => (request.url === '/slow' ? undefined : void response.end('ok')));
    const slow = machine.call({ path: '/slow' });
    const late = expect(slow).rejects.toMatchObject({ code: 'timed_out', status: 504 });
    await expect.poll(() => machine.last?.status).toBe('running');
    await machine.clock.advance(1000);
    await late;
    expect(machine.last).toMatchObject({ status: 'timed_out', log_preview: 'the last line' });
    expect(machine.stopped).toBe(1);
    expect((await machine.call()).body).toBe('ok');
    expect(machine.launches).toBe(2);
  });

  it('does not end an instance for a caller who does not send the request, but for a handler that does not read it', async () => {
    const machine = new Machine();
    await machine.serve((request, response) => {
      if (request.url === '/deaf') return;
      request.resume();
      request.on('end', () => response.end('ok'));
    });
    const slow = new Readable({ read: () => undefined });
    slow.push('a');
    const call = machine.call({ body: slow, headers: { host: 'h', 'content-length': '1000' } });
    const late = expect(call).rejects.toMatchObject({ code: 'not_sent', status: 408 });
    await expect.poll(() => machine.last?.status).toBe('running');
    await expect.poll(() => slow.readableLength).toBe(0);
    await machine.clock.advance(1000);
    await late;
    expect(machine.last).toMatchObject({ status: 'failed', error: { code: 'not_sent' } });
    expect((await machine.call()).body).toBe('ok');
    expect([machine.launches, machine.stopped]).toEqual([1, 0]);
    const big = Readable.from(Array.from({ length: 256 }, () => Buffer.alloc(64 * 1024)));
    const unread = machine.call({ path: '/deaf', body: big, headers: { host: 'h', 'transfer-encoding': 'chunked' } });
    const deaf = expect(unread).rejects.toMatchObject({ code: 'timed_out' });
    await expect.poll(() => machine.last?.status).toBe('running');
    await expect.poll(() => big.readableLength).toBeGreaterThan(0);
    await machine.clock.advance(1000);
    await deaf;
    expect(machine.stopped).toBe(1);
  });

  it('says that an instance ran out of memory, and replaces it', async () => {
    const machine = new Machine();
    await machine.serve((request, response) =>
      request.url === '/big' ? machine.ends[0]?.({ outOfMemory: true }) : void response.end('ok'),
    );
    await expect(machine.call({ path: '/big' })).rejects.toMatchObject({ code: 'out_of_memory', status: 502 });
    expect(machine.last).toMatchObject({ status: 'failed', error: { code: 'out_of_memory' } });
    expect((await machine.call()).body).toBe('ok');
  });

  it('records an answer of 500 as a failure', async () => {
    const machine = new Machine();
    await machine.serve((_, response) => void response.writeHead(500).end('no'), { timeoutMs: 60_000 });
    const called = machine.call();
    const ended = async (): Promise<unknown> => {
      await machine.clock.advance(lastWordsMs);
      return machine.last?.status;
    };
    await expect.poll(ended).toBe('failed');
    expect(await called).toEqual({ status: 500, body: 'no' });
    expect(machine.last).toMatchObject({ status: 'failed', status_code: 500, error: { code: 'answered' } });
  });

  it('says why no instance starts, and tries anew for the next call', async () => {
    const machine = new Machine();
    let isBroken = true;
    await machine.serve(hello, {
      launch: () => (isBroken ? Promise.reject(new Error('its process ended: boom')) : machine.launch(hello)),
    });
    await expect(machine.call()).rejects.toMatchObject({
      code: 'start_failed',
      message: expect.stringContaining('boom'),
    });
    isBroken = false;
    expect((await machine.call()).status).toBe(200);
  });

  it('lets calls under way end with their version, while others get the next one', async () => {
    const machine = new Machine();
    const answers: (() => void)[] = [];
    await machine.serve((_, response) => void answers.push(() => response.end('old')));
    const old = machine.call();
    await expect.poll(() => answers.length).toBe(1);
    await machine.serve((_, response) => void response.end('new'), { version: 'two' });
    expect((await machine.call()).body).toBe('new');
    expect(machine.last?.cold_start).toBe(false);
    expect(machine.stopped).toBe(0);
    answers[0]?.();
    expect((await old).body).toBe('old');
    await expect.poll(() => machine.stopped).toBe(1);
    expect(machine.records.filter(({ status }) => status === 'succeeded').map((it) => it.version_id)).toEqual([
      'two',
      'one',
    ]);
  });

  it('answers by the version before until an instance of the next one does, and stays with it where none does', async () => {
    const machine = new Machine();
    await machine.serve((_, response) => void response.end('old'), { maxInstances: 1 });
    await machine.call();
    const start = Promise.withResolvers<void>();
    const launch = async (): Promise<Launched> => {
      await start.promise;
      return machine.launch((_, response) => void response.end('new'));
    };
    const taken = machine.serve(hello, { version: 'two', launch });
    const refused = expect(taken).rejects.toThrow('boom');
    expect((await machine.call()).body).toBe('old');
    start.reject(new Error('boom'));
    await refused;
    expect((await machine.call()).body).toBe('old');
    expect([machine.launches, machine.stopped]).toEqual([1, 0]);
    const ending = new AbortController();
    const ended = machine.serve(
      hello,
      { launch: (signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))) },
      ending.signal,
    );
    ending.abort(new Error('not wanted any more'));
    await expect(ended).rejects.toThrow('not wanted any more');
    expect((await machine.call()).body).toBe('old');
  });

  it('answers by the next version the calls that waited for the one before', async () => {
    const machine = new Machine();
    const answers: (() => void)[] = [];
    await machine.serve((_, response) => void answers.push(() => response.end('old')), { maxInstances: 1 });
    const old = machine.call();
    await expect.poll(() => answers.length).toBe(1);
    const waiting = [machine.call(), machine.call()];
    await machine.serve((_, response) => void response.end('new'), { version: 'two', maxInstances: 1 });
    expect((await Promise.all(waiting)).map(({ body }) => body)).toEqual(['new', 'new']);
    expect((await machine.call()).body).toBe('new');
    answers[0]?.();
    expect((await old).body).toBe('old');
  });

  it('ends a call whose caller went away', async () => {
    const machine = new Machine();
    let isClosed = false;
    await machine.serve((request) => void request.socket.on('close', () => (isClosed = true)));
    const gone = new AbortController();
    const call = machine.call({}, gone.signal);
    const ended = expect(call).rejects.toMatchObject({ code: 'client_gone' });
    await expect.poll(() => machine.last?.status).toBe('running');
    gone.abort(new Error('gone'));
    await ended;
    await expect.poll(() => isClosed).toBe(true);
  });

  it('does not wait for a caller who takes no answer, and keeps the instance that gave it', async () => {
    const machine = new Machine();
    await machine.serve(
      (request, response) => void response.end(request.url === '/big' ? Buffer.alloc(8 << 20) : 'ok'),
    );
    let body: Readable | undefined;
    const big = machine.call({
      path: '/big',
      answer: async (reply) => {
        ({ body } = reply);
        reply.body.read(0);
        await new Promise(() => undefined);
      },
    });
    const late = expect(big).rejects.toMatchObject({ code: 'timed_out' });
    await expect.poll(() => body?.readableLength ?? 0).toBeGreaterThan(0);
    await machine.clock.advance(1000);
    await late;
    expect(body?.destroyed).toBe(true);
    expect((await machine.call()).body).toBe('ok');
    expect([machine.launches, machine.stopped]).toEqual([1, 0]);
  });

  it.each([
    ['DELETE', { 'transfer-encoding': 'chunked' }, Readable.from([Buffer.from('GET /other HTTP/1.1')])],
    ['DELETE', {}, Buffer.from('GET /other HTTP/1.1')],
  ])('frames the body of a %s with %j', async (method, headers, body) => {
    const machine = new Machine();
    const seen: string[] = [];
    await machine.serve((request, response) => {
      void text(request).then((body) => {
        seen.push(`${request.method} ${request.url} ${body}`);
        response.end('ok');
      });
    });
    await machine.call({ method, headers: { host: 'h', ...headers }, body });
    await machine.call();
    expect(seen).toEqual(['DELETE / GET /other HTTP/1.1', 'POST / ']);
  });

  it('fails a call that is answered with 101', async () => {
    const machine = new Machine();
    await machine.serve((request) => {
      request.socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n');
    });
    const called = expect(machine.call()).rejects.toMatchObject({ code: 'instance_ended' });
    const ended = async (): Promise<unknown> => {
      await machine.clock.advance(100);
      return machine.last?.status;
    };
    await expect.poll(ended).toBe('failed');
    await called;
  });

  it('gives no instance to a caller who left while another version took over', async () => {
    const machine = new Machine();
    await machine.serve(hello, { launch: () => new Promise(() => undefined) });
    const gone = new AbortController();
    const left = expect(machine.call({}, gone.signal)).rejects.toMatchObject({ code: 'client_gone' });
    const start = Promise.withResolvers<void>();
    const taken = machine.serve(hello, {
      maxInstances: 1,
      launch: async () => {
        await start.promise;
        return machine.launch(hello);
      },
    });
    gone.abort(new Error('gone'));
    await left;
    start.resolve();
    await taken;
    expect((await machine.call()).status).toBe(200);
    expect(machine.launches).toBe(1);
  });

  it('pauses longer each time before it replaces an instance that ends soon', async () => {
    const machine = new Machine();
    await machine.serve(hello, { minInstances: 1, maxInstances: 1 });
    const die = async (count: number): Promise<void> => {
      await expect.poll(() => machine.ready).toBe(count);
      await machine.clock.advance(0);
      machine.ends[count - 1]?.({ outOfMemory: false });
      await machine.clock.advance(0);
    };
    await die(1);
    await machine.clock.advance(4999);
    expect(machine.launches).toBe(1);
    await machine.clock.advance(1);
    await die(2);
    await machine.clock.advance(9999);
    expect(machine.launches).toBe(2);
    await machine.clock.advance(1);
    await expect.poll(() => machine.ready).toBe(3);
    // one that lasted is replaced at once
    await machine.clock.advance(shortLifeMs);
    await die(3);
    await expect.poll(() => machine.ready).toBe(4);
  });

  it('is rid of all instances once it is closed', async () => {
    const machine = new Machine();
    await machine.serve(hello, { minInstances: 1 });
    await machine.call();
    await machine.activator.close();
    expect([machine.stopped, machine.activator.size]).toEqual([1, 0]);
    await expect(machine.call()).rejects.toMatchObject({ code: 'not_running', status: 503 });
  });
});
