/** Types of records. */
export const recordType = { a: 1, srv: 33 } as const;

/** What a query asks for. `end`: where its question ends in the message. */
export interface Question {
  name: string;
  type: number;
  end: number;
}

/** An answer: an address, or a host with a port. */
export type Answer = { address: string } | { host: string; port: number };

const headerBytes = 12;
/** Most that a resolver takes in one datagram. */
const mostBytes = 1232;

/** Reads the one question of a query; `undefined` for what is none, or none that a resolver sends. */
export function questionOf(message: Buffer): Question | undefined {
  if (message.length < headerBytes + 5 || message.readUInt16BE(4) !== 1) return undefined;
  const labels: string[] = [];
  let at = headerBytes;
  for (;;) {
    const length = message[at];
    if (length === undefined || length > 63) return undefined;
    at += 1;
    if (length === 0) break;
    labels.push(message.subarray(at, at + length).toString('latin1'));
    at += length;
  }
  if (at + 4 > message.length) return undefined;
  return { name: labels.join('.').toLowerCase(), type: message.readUInt16BE(at), end: at + 4 };
}

/** Writes an answer that no one keeps. `undefined`: there is no such name. Answers that have no room are left out. */
export function answerTo(query: Buffer, question: Question, answers: readonly Answer[] | undefined): Buffer {
  const head = Buffer.alloc(headerBytes);
  query.copy(head, 0, 0, 2);
  head.writeUInt16BE(answers === undefined ? 0x8583 : 0x8580, 2);
  head.writeUInt16BE(1, 4);
  const parts = [head, query.subarray(headerBytes, question.end)];
  let bytes = question.end;
  let count = 0;
  for (const record of (answers ?? []).map(recordOf)) {
    if (bytes + record.length > mostBytes) break;
    parts.push(record);
    bytes += record.length;
    count += 1;
  }
  head.writeUInt16BE(count, 6);
  return Buffer.concat(parts);
}

function recordOf(answer: Answer): Buffer {
  const isAddress = 'address' in answer;
  const data = isAddress ? Buffer.from(answer.address.split('.').map(Number)) : serviceData(answer);
  const record = Buffer.alloc(12);
  record.writeUInt16BE(0xc00c, 0); // the name of the question
  record.writeUInt16BE(isAddress ? recordType.a : recordType.srv, 2);
  record.writeUInt16BE(1, 4);
  record.writeUInt16BE(data.length, 10);
  return Buffer.concat([record, data]);
}

function serviceData({ host, port }: { host: string; port: number }): Buffer {
  const numbers = Buffer.alloc(6);
  numbers.writeUInt16BE(port, 4);
  const labels = host.split('.').flatMap((label) => [Buffer.from([label.length]), Buffer.from(label, 'latin1')]);
  return Buffer.concat([numbers, ...labels, Buffer.from([0])]);
}
