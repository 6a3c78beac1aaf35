import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import { systemClock } from '../../../time/clock.ts';
import { prober, type ProbeResult, type ProbeTarget } from '../../../agent/runtime/probe.ts';
import {
  RuntimeFailure,
  type ContainerDetail,
  type ContainerRuntime,
  type RunResult,
} from '../../../agent/runtime/runtime.ts';
import { FakeClock, settle } from '../../harness/fake-clock.ts';

const signal = (): AbortSignal => AbortSignal.timeout(10_000);
const address = '127.0.0.1';

/** A container as far as a prober asks for it. */
interface Subject {
  run?: () => Promise<RunResult>;
  inspect?: (id: string, signal: AbortSignal) => Promise<Partial<ContainerDetail> | undefined>;
}

function probe(
  target: ProbeTarget,
  subject: Subject = {},
  given = signal(),
  clock = systemClock,
): Promise<ProbeResult> {
  const unexpected = (): never => expect.fail('The engine is not asked');
  const runtime = {
    run: subject.run ?? unexpected,
    inspect: (subject.inspect ?? unexpected) as ContainerRuntime['inspect'], // as far as it is read
  };
  return prober({ clock, runtime }).probe(target, given);
}

async function listening(server: Server): Promise<{ port: number } & AsyncDisposable> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => sockets.add(socket));
  server.listen(0, address);
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** A port that nothing listens on. */
async function freePort(): Promise<number> {
  await using server = await listening(createServer());
  return server.port;
}

describe('by HTTP', () => {
  const http = (port: number): ProbeTarget => ({ type: 'http', address, port, path: '/x', timeoutMs: 5_000 });

  test.each([
    [200, { ok: true }],
    [204, { ok: true }],
    [302, { ok: true }],
    [404, { ok: false, reason: 'GET /x answered 404' }],
    [503, { ok: false, reason: 'GET /x answered 503' }],
  ])('the answer %i counts', async (status, result) => {
    await using server = await listening(createHttpServer((_, response) => response.writeHead(status).end()));
    expect(await probe(http(server.port))).toEqual(result);
  });

  test('an answer that may be for other hosts than the one that was asked for names it, with its beginning', async () => {
    await using server = await listening(
      createHttpServer((request, response) => {
        const isKnown = request.headers.host === 'app.example.test';
        response.writeHead(isKnown ? 200 : 400).end(`Invalid Host ${'x'.repeat(1000)}`);
      }),
    );
    const host = `${address}:${server.port}`;
    const remedy = '(if it serves certain hosts only, set host of its healthcheck)';
    expect(await probe(http(server.port))).toEqual({
      ok: false,
      reason: `GET /x with Host ${host} answered 400 ${remedy}`,
      body: `Invalid Host ${'x'.repeat(187)}`,
    });
    const target = { ...http(server.port), host: 'other.example.test' } as ProbeTarget;
    expect(await probe(target)).toMatchObject({ reason: 'GET /x with Host other.example.test answered 400' });
    expect(await probe({ ...target, host: 'app.example.test' } as ProbeTarget)).toEqual({ ok: true });
  });

  test('one status may be the only one that counts', async () => {
    await using server = await listening(
      createHttpServer((request, response) => response.writeHead(request.url === '/x' ? 401 : 200).end()),
    );
    const target = { ...http(server.port), status: 401 } as ProbeTarget;
    expect(await probe(target)).toEqual({ ok: true });
    const reason = 'GET /y answered 200 and not 401';
    expect(await probe({ ...target, path: '/y' } as ProbeTarget)).toEqual({ ok: false, reason });
  });

  test('an answer that does not end is left after its beginning', async () => {
    await using server = await listening(
      createHttpServer((_, response) => void response.writeHead(500).write('x'.repeat(5_000))),
    );
    expect(await probe(http(server.port))).toMatchObject({ ok: false, body: 'x'.repeat(200) });
  });

  test('a port that nothing listens on is named by its error', async () => {
    expect(await probe(http(await freePort()))).toEqual({ ok: false, reason: 'GET /x failed: ECONNREFUSED' });
  });

  test('a server that does not answer is left after the deadline', async () => {
    const clock = new FakeClock();
    const connected = Promise.withResolvers<void>();
    await using server = await listening(createServer(() => connected.resolve()));
    const asked = probe(http(server.port), {}, signal(), clock);
    await connected.promise;
    await clock.advance(5_000);
    expect(await asked).toEqual({ ok: false, reason: 'GET /x did not answer within 5 s' });
    expect(clock.pending).toBe(0);
  });

  test('ends with the reason of its signal', async () => {
    const given = new AbortController();
    await using server = await listening(createServer(() => given.abort(new Error('Given up'))));
    await expect(probe(http(server.port), {}, given.signal)).rejects.toThrow('Given up');
  });
});

describe('by TCP', () => {
  const tcp = (port: number): ProbeTarget => ({ type: 'tcp', address, port, timeoutMs: 5_000 });

  test('a server that accepts the connection is healthy, and the connection is closed', async () => {
    const closed = Promise.withResolvers<void>();
    const server = createServer((socket) => socket.on('close', closed.resolve).on('error', closed.reject).resume());
    await using open = await listening(server);
    expect(await probe(tcp(open.port))).toEqual({ ok: true });
    await closed.promise;
  });

  test('a port that nothing listens on is named by its error', async () => {
    const port = await freePort();
    const reason = `A connection to port ${port} failed: ECONNREFUSED`;
    expect(await probe(tcp(port))).toEqual({ ok: false, reason });
  });
});

describe('by a command', () => {
  const command: ProbeTarget = { type: 'command', container: 'c1', command: ['pg_isready', '-q'], timeoutMs: 1_500 };
  const failure = (code: 'exited' | 'runtime_unavailable'): RuntimeFailure =>
    new RuntimeFailure(code, 'The container engine does not answer', { retryable: true });
  const ending = (exitCode: number | undefined) => async () => ({ exitCode, output: 'at 12:00' });

  test.each<[string, () => Promise<RunResult>, ProbeResult]>([
    ['code 0', ending(0), { ok: true }],
    ['another code', ending(2), { ok: false, reason: 'pg_isready ended with code 2' }],
    ['no end in time', ending(undefined), { ok: false, reason: 'pg_isready did not end within 1.5 s' }],
    ['no container', () => Promise.reject(failure('exited')), { ok: false, reason: 'The container does not run' }],
    [
      'no engine',
      () => Promise.reject(failure('runtime_unavailable')),
      { ok: undefined, reason: 'The container engine does not answer' },
    ],
  ])('%s counts', async (_, run, result) => {
    expect(await probe(command, { run })).toEqual(result);
  });

  test('a fault of the agent is no result', async () => {
    await expect(probe(command, { run: () => Promise.reject(new TypeError('x')) })).rejects.toThrow(TypeError);
  });
});

describe('by the health check of the image', () => {
  const image: ProbeTarget = { type: 'image', container: 'c1', timeoutMs: 5_000 };

  test.each<[Partial<ContainerDetail> | undefined, ProbeResult]>([
    [{ state: 'running', health: 'healthy' }, { ok: true }],
    [
      { state: 'running', health: 'starting' },
      { ok: false, reason: 'The health check of the image has not passed yet' },
    ],
    [
      { state: 'running', health: 'unhealthy' },
      { ok: false, reason: 'The health check of the image failed' },
    ],
    [{ state: 'running' }, { ok: false, reason: 'The image has no health check' }],
    [{ state: 'exited' }, { ok: false, reason: 'The container does not run' }],
    [undefined, { ok: false, reason: 'The container does not run' }],
  ])('%j counts', async (detail, result) => {
    expect(await probe(image, { inspect: () => Promise.resolve(detail) })).toEqual(result);
  });

  test('an engine that does not answer in time shows nothing', async () => {
    const clock = new FakeClock();
    const inspect = (_: string, given: AbortSignal): Promise<never> =>
      new Promise((_resolve, reject) => given.addEventListener('abort', () => reject(given.reason as Error)));
    const asked = probe(image, { inspect }, signal(), clock);
    await settle();
    await clock.advance(5_000);
    expect(await asked).toEqual({ ok: undefined, reason: 'The container engine did not answer' });
  });
});
