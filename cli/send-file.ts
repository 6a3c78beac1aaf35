import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { open } from 'node:fs/promises';
import { request as requestByHttp } from 'node:http';
import type { ClientRequest, IncomingMessage } from 'node:http';
import { request as requestByHttps } from 'node:https';
import { text } from 'node:stream/consumers';

/** Longest wait for the answer once all is sent, in milliseconds: the control plane answers within 300 s. */
const usualAnswerMs = 330_000;

/** What a request answered. */
export interface FileAnswer {
  status: number;
  text: string;
  /** Where it redirects to. */
  location: string | undefined;
}

/**
 * Sends a file as a form, as it is read: `fetch` gives up a body that takes more than five minutes. An answer that comes before
 * the end of the file ends the sending.
 *
 * @throws Error if the file cannot be read, or the connection is lost without an answer
 */
export async function sendFile(
  address: string,
  { path, headers, answerMs = usualAnswerMs }: { path: string; headers: Record<string, string>; answerMs?: number },
  signal: AbortSignal | undefined,
): Promise<FileAnswer> {
  await using file = await open(path);
  const { size } = await file.stat();
  const boundary = `setpoint-${randomUUID()}`;
  const head = `--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="dump"\r\ncontent-type: application/octet-stream\r\n\r\n`;
  const tail = `\r\n--${boundary}--\r\n`;
  const request = address.startsWith('https:') ? requestByHttps : requestByHttp;
  const sent = request(address, {
    method: 'POST',
    headers: {
      ...headers,
      'content-type': `multipart/form-data; boundary=${boundary}`,
      'content-length': String(head.length + size + tail.length),
    },
    ...(signal !== undefined && { signal }),
  });
  /** Aborts once nothing is to be sent any more. */
  const over = new AbortController();
  const answer = new Promise<IncomingMessage>((resolve, reject) => {
    sent.once('response', resolve);
    sent.on('error', reject);
    sent.once('close', () => reject(lost('The connection was closed without an answer')));
  });
  answer.catch(() => undefined).finally(() => over.abort()); // it is awaited below
  const body = async function* (): AsyncGenerator<Uint8Array> {
    yield Buffer.from(head);
    if (size > 0) yield* file.createReadStream({ autoClose: false, end: size - 1 }) as AsyncIterable<Buffer>;
    yield Buffer.from(tail);
  };
  try {
    await write(body(), sent, over.signal);
    sent.setTimeout(answerMs, () => sent.destroy(lost(`No answer came within ${answerMs / 1000} s`)));
    const response = await answer;
    const { statusCode: status = 0, headers } = response;
    return { status, text: await text(response), location: headers.location };
  } finally {
    // only now: an answer goes with its request
    sent.destroy();
  }
}

/** An error with the code that a connection which was there is lost with. */
function lost(message: string): Error {
  return Object.assign(new Error(message), { code: 'ECONNRESET' });
}

/** Writes a body to its end, or until `over` aborts. @throws what `body` throws */
async function write(body: AsyncIterable<Uint8Array>, sent: ClientRequest, over: AbortSignal): Promise<void> {
  for await (const chunk of body) {
    if (over.aborted) return;
    if (!sent.write(chunk)) await once(sent, 'drain', { signal: over }).catch(() => undefined); // `over` says so
  }
  if (!over.aborted) sent.end();
}
