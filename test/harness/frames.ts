import { WebSocket } from 'ws';

/** A stream as a test reads it. */
export interface Frames extends AsyncDisposable {
  socket: WebSocket;
  /** Every frame that came. */
  all: Record<string, unknown>[];
  /** The next frame that matches, from among the ones that were not taken. @throws Error after 5 s */
  next(type: string): Promise<Record<string, unknown>>;
  /** How the stream was closed. */
  closed: Promise<{ code: number; reason: string }>;
}

/** Opens a stream. @throws Refusal when it is refused before the upgrade. */
export async function openFrames(address: string, headers: Record<string, string> = {}): Promise<Frames> {
  const socket = new WebSocket(address, { headers });
  const all: Record<string, unknown>[] = [];
  const untaken: Record<string, unknown>[] = [];
  let wake = Promise.withResolvers<void>();
  const closed = Promise.withResolvers<{ code: number; reason: string }>();
  socket.on('message', (data: Buffer, isBinary) => {
    if (isBinary) throw new Error('A frame must be text');
    const frame = JSON.parse(data.toString()) as Record<string, unknown>;
    all.push(frame);
    untaken.push(frame);
    wake.resolve();
  });
  socket.on('close', (code, reason) => {
    closed.resolve({ code, reason: reason.toString() });
    wake.resolve();
  });
  await new Promise<void>((resolve, reject) => {
    socket.on('open', () => resolve());
    socket.on('error', reject);
    socket.on('unexpected-response', (request, response) => {
      let body = '';
      response.on('data', (part: Buffer) => (body += part.toString()));
      response.on('end', () => {
        request.destroy();
        reject(new Refusal(response.statusCode ?? 0, JSON.parse(body), response.headers));
      });
    });
  });
  return {
    socket,
    all,
    closed: closed.promise,
    async next(type) {
      const late = Promise.withResolvers<never>();
      late.promise.catch(() => undefined); // it is late only while somebody waits
      const timer = setTimeout(() => late.reject(new Error(`No ${type} frame came: ${JSON.stringify(all)}`)), 5000);
      using _ = { [Symbol.dispose]: () => clearTimeout(timer) };
      for (;;) {
        const at = untaken.findIndex((frame) => frame['type'] === type);
        if (at !== -1) return untaken.splice(at, 1)[0]!;
        await Promise.race([wake.promise, late.promise]);
        wake = Promise.withResolvers();
      }
    },
    async [Symbol.asyncDispose]() {
      socket.terminate();
      await closed.promise;
    },
  };
}

/** An answer in place of a stream. */
export class Refusal extends Error {
  readonly status: number;
  readonly body: unknown;
  readonly headers: Record<string, unknown>;

  constructor(status: number, body: unknown, headers: Record<string, unknown>) {
    super(`Refused with ${status}: ${JSON.stringify(body)}`);
    this.status = status;
    this.body = body;
    this.headers = headers;
  }
}
