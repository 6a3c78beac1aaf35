/** A message in the wire format of protocol buffers: of each field its values, in order. */
export interface Message {
  /** Last value of a number field; 0 if there is none, as the format has it. */
  number(field: number): number;
  /** Last value; empty if there is none. */
  text(field: number): string;
  bytes(field: number): Buffer;
  has(field: number): boolean;
  messages(field: number): Message[];
}

const sizes = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const;

/** Reads a message, whatever fields it has. @throws RangeError if it is none */
export function readMessage(data: Buffer): Message {
  const fields = new Map<number, (number | Buffer)[]>();
  for (let at = 0; at < data.length;) {
    const key = varint(data, at);
    const [number, kind] = [Math.floor(key.value / 8), key.value % 8];
    at = key.next;
    let value: number | Buffer;
    if (kind === sizes.varint) ({ value, next: at } = varint(data, at));
    else {
      const length = kind === sizes.bytes ? varint(data, at) : { value: fixed(kind), next: at };
      at = length.next + length.value;
      if (at > data.length) throw new RangeError('A message of protocol buffers ends within a field');
      value = data.subarray(length.next, at);
    }
    const known = fields.get(number);
    if (known === undefined) fields.set(number, [value]);
    else known.push(value);
  }
  const last = (field: number): number | Buffer | undefined => fields.get(field)?.at(-1);
  const bytes = (field: number): Buffer => {
    const value = last(field);
    return value instanceof Buffer ? value : Buffer.alloc(0);
  };
  return {
    number: (field) => Number(last(field) ?? 0),
    text: (field) => bytes(field).toString(),
    bytes,
    has: (field) => fields.has(field),
    messages: (field) => (fields.get(field) ?? []).flatMap((one) => (one instanceof Buffer ? [readMessage(one)] : [])),
  };
}

/** Writes the fields in order, without those that have the value of their absence: 0 or nothing. */
export function writeMessage(
  fields: readonly (readonly [field: number, value: number | string | Uint8Array])[],
): Buffer {
  return Buffer.concat(
    fields.flatMap(([field, value]) => {
      if (typeof value === 'number') return value === 0 ? [] : [written(field * 8 + sizes.varint), written(value)];
      const content = Buffer.from(value);
      return content.length === 0 ? [] : [written(field * 8 + sizes.bytes), written(content.length), content];
    }),
  );
}

function fixed(kind: number): number {
  if (kind === sizes.fixed64) return 8;
  if (kind === sizes.fixed32) return 4;
  throw new RangeError(`A message of protocol buffers has a field of kind ${kind}`);
}

/** Above 2^53 the value is not exact. */
function varint(data: Buffer, start: number): { value: number; next: number } {
  let value = 0;
  for (let at = start; at < start + 10; at += 1) {
    const byte = data[at];
    if (byte === undefined) break;
    value += (byte & 0x7f) * 2 ** (7 * (at - start));
    if (byte < 0x80) return { value, next: at + 1 };
  }
  throw new RangeError('A message of protocol buffers has a number without an end');
}

function written(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80);
  bytes.push(rest);
  return Buffer.from(bytes);
}
