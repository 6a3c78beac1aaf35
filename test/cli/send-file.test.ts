import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { sendFile } from '../../cli/send-file.ts';

let folder: string;
let server: Server;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-send-'));
});
afterEach(async () => {
  server.closeAllConnections();
  await rm(folder, { recursive: true });
});

/** Sends a file of so many bytes to a server that does this. */
async function send(
  bytes: number,
  answer: (request: IncomingMessage, response: ServerResponse) => unknown,
  more: { answerMs?: number } = {},
) {
  const path = join(folder, 'file');
  await writeFile(path, Buffer.alloc(bytes, 'x'));
  server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo; // it listens on a port
  return sendFile(`http://127.0.0.1:${port}/`, { path, headers: {}, ...more }, AbortSignal.timeout(20_000));
}

describe('a file that is sent', () => {
  it('comes as a form, with its length said before', async () => {
    const answer = await send(300_000, async (request, response) => {
      const body = await text(request);
      response.end(`${body.length === Number(request.headers['content-length'])} ${body.match(/x{300000}/)?.length}`);
    });
    expect(answer).toEqual({ status: 200, text: 'true 1' });
  });

  it('gets an answer that comes before its end, and whose body comes after its head', async () => {
    const answer = await send(4_000_000, async (request, response) => {
      response.writeHead(409).write('{"is it');
      await delay(100);
      request.resume();
      response.end(' whole": true}');
    });
    expect(answer).toEqual({ status: 409, text: '{"is it whole": true}' });
  });

  it('fails where no answer comes in time once it is sent', async () => {
    const never = (request: IncomingMessage) => request.resume();
    await expect(send(1000, never, { answerMs: 100 })).rejects.toThrow('No answer came within 0.1 s');
  });

  it('fails where the connection ends without an answer', async () => {
    await expect(send(4_000_000, (request) => request.destroy())).rejects.toThrow(/ECONNRESET|EPIPE|socket hang up/);
  });
});
