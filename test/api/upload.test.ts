import { PassThrough } from 'node:stream';
import type { IncomingMessage } from 'node:http';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ApiError } from '../../api/ground/api-error.ts';
import { readIcon } from '../../api/workloads/icon.ts';
import { readUpload } from '../../api/http/upload.ts';
import { gif, jpeg, png, webp } from '../harness/images.ts';

const type = 'multipart/form-data; boundary=b';

function form(bytes: Buffer): Buffer {
  const head = '--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n';
  return Buffer.concat([Buffer.from(head), bytes, Buffer.from('\r\n--b--\r\n')]);
}

/** A request that sends these parts, one after another. */
function requestOf(parts: readonly Buffer[]): IncomingMessage {
  const stream = new PassThrough();
  for (const part of parts) stream.write(part);
  stream.end();
  return Object.assign(stream, { headers: { 'content-type': type } }) as unknown as IncomingMessage;
}

/** Replaces, removes and repeats pieces of the bytes. */
const edits = fc.array(
  fc.record({
    at: fc.nat(4096),
    length: fc.nat(64),
    by: fc.oneof(
      fc.uint8Array({ maxLength: 16 }).map((bytes) => Buffer.from(bytes)),
      fc.constantFrom(
        ...['--b', '--b--', '\r\n\r\n', 'Content-Disposition: ', 'filename="'].map((it) => Buffer.from(it)),
      ),
    ),
  }),
  { minLength: 1, maxLength: 4 },
);

function edited(bytes: Buffer, all: readonly { at: number; length: number; by: Buffer }[]): Buffer {
  return all.reduce((before, { at, length, by }) => {
    const from = at % (before.length + 1);
    return Buffer.concat([before.subarray(0, from), by, before.subarray(from + length)]);
  }, bytes);
}

test('whatever comes instead of a form with an icon is an icon or refused, and never a fault', async () => {
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(png(), jpeg(), gif(), webp()), edits, fc.nat(200), async (image, changes, cut) => {
      const body = edited(form(image), changes);
      const request = requestOf([body.subarray(0, cut), body.subarray(cut)]);
      try {
        const { file } = await readUpload(request, 1024);
        expect((await readIcon(file.bytes)).bytes).toEqual(file.bytes);
      } catch (error) {
        expect(error).toBeInstanceOf(ApiError);
        expect((error as ApiError).code).toBe('BAD_REQUEST');
      }
    }),
    { numRuns: 2000 },
  );
});

test('a file is the same in however many pieces it comes', async () => {
  const body = form(png());
  const pieces = Array.from(body, (_, at) => body.subarray(at, at + 1));
  expect((await readUpload(requestOf(pieces), 1024)).file.bytes).toEqual(png());
  expect((await readUpload(requestOf([body]), png().length)).file.bytes).toEqual(png());
  await expect(readUpload(requestOf([body]), png().length - 1)).rejects.toThrow('must not be longer');
});
