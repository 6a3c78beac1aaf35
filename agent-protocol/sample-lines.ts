import type { z } from 'zod';
import { CallError } from './call-error.ts';

/** Encodes a sample as a line of a stream of samples. */
export function encodeLine(sample: object): Uint8Array {
  return Buffer.from(`${JSON.stringify(sample)}\n`);
}

/**
 * Decodes the bytes of a stream of samples. `of`: what they are samples of. @throws CallError `malformed` if they are not
 * lines of samples
 */
export async function* decodeLines<T>(
  bytes: AsyncIterable<Uint8Array>,
  { form, maxBytes, of }: { form: z.ZodType<T>; maxBytes: number; of: string },
): AsyncGenerator<T, void, undefined> {
  let rest = Buffer.alloc(0);
  for await (const part of bytes) {
    rest = Buffer.concat([rest, part]);
    for (let end = rest.indexOf(10); end !== -1; end = rest.indexOf(10)) {
      yield parse(rest.subarray(0, end), form, of);
      rest = rest.subarray(end + 1);
    }
    if (rest.length > maxBytes)
      throw new CallError('malformed', `A sample of ${of} must have at most ${maxBytes} bytes`);
  }
}

function parse<T>(line: Buffer, form: z.ZodType<T>, of: string): T {
  try {
    return form.parse(JSON.parse(line.toString('utf8')));
  } catch (error) {
    throw new CallError('malformed', `The stream of ${of} holds something that is no sample`, { cause: error });
  }
}
