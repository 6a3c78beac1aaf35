// The wire protocol of MongoDB as far as its present clients use it: OP_MSG, and OP_QUERY for the first question of a
// connection. https://www.mongodb.com/docs/manual/reference/mongodb-wire-protocol/
import { deserialize, serialize } from 'bson';

const opcodes = { reply: 1, query: 2004, message: 2013 };
const hasChecksum = 1;
const moreToCome = 2;
const headerBytes = 16;
export const mostMessageBytes = 48_000_000;

/** Numbers keep the type in which they came. */
const asSent = { promoteValues: false, promoteBuffers: false, bsonRegExp: true };

/** A document that the engine wrote, or that a client sent. */
export const read = (bytes) => deserialize(bytes, asSent);
export const write = (document) => Buffer.from(serialize(document, { ignoreUndefined: true }));

/** The messages that a socket brings, one after the other. */
export async function* messages(socket) {
  let [chunks, held, wanted] = [[], 0, headerBytes];
  for await (const chunk of socket) {
    chunks.push(chunk);
    held += chunk.length;
    while (held >= wanted) {
      const bytes = Buffer.concat(chunks);
      const length = bytes.readInt32LE(0);
      if (length < headerBytes || length > mostMessageBytes)
        throw new Error(`A message has ${headerBytes} to ${mostMessageBytes} bytes, not ${length}`);
      const isWhole = held >= length;
      if (isWhole) yield bytes.subarray(0, length);
      chunks = [isWhole ? bytes.subarray(length) : bytes];
      held = chunks[0].length;
      wanted = isWhole ? headerBytes : length;
    }
  }
}

/** What a message asks for: a command with the lists of documents that came beside it. */
export function question(message) {
  const [id, opcode, flags] = [4, 12, 16].map((at) => message.readInt32LE(at));
  if (opcode === opcodes.query) return { id, opcode, isAnswered: true, ...ofQuery(message) };
  if (opcode !== opcodes.message) throw new Error(`Messages of opcode ${opcode} are not understood`);
  const end = message.length - (flags & hasChecksum ? 4 : 0);
  let command = {};
  const lists = {};
  for (let at = 20; at < end;) {
    const length = message.readInt32LE(at + 1);
    const section = message.subarray(at + 1, at + 1 + length);
    if (message[at] === 0) command = read(section);
    else Object.assign(lists, listIn(section));
    at += 1 + length;
  }
  const { $db: database, ...rest } = command;
  return { id, opcode, isAnswered: !(flags & moreToCome), database, command: { ...rest, ...lists } };
}

function ofQuery(message) {
  const end = message.indexOf(0, 20);
  const [database] = message.toString('utf8', 20, end).split('.');
  const at = end + 9;
  return { database, command: read(message.subarray(at, at + message.readInt32LE(at))) };
}

/** A list of documents under its name, which is sent apart from the command that it is a field of. */
function listIn(section) {
  const end = section.indexOf(0, 4);
  const documents = [];
  for (let at = end + 1; at < section.length;) {
    const length = section.readInt32LE(at);
    documents.push(read(section.subarray(at, at + length)));
    at += length;
  }
  return { [section.toString('utf8', 4, end)]: documents };
}

/** The message that answers a question by a document, which may be written already. */
export function answer({ id, opcode }, document) {
  const body = Buffer.isBuffer(document) ? document : write(document);
  // after the header: the flags and the kind of the section, or what a cursor of a query has, of which there is one document
  const before = Buffer.alloc(opcode === opcodes.query ? 20 : 5);
  if (opcode === opcodes.query) before.writeInt32LE(1, 16);
  const header = Buffer.alloc(headerBytes);
  header.writeInt32LE(header.length + before.length + body.length, 0);
  header.writeInt32LE(id, 8);
  header.writeInt32LE(opcode === opcodes.query ? opcodes.reply : opcodes.message, 12);
  return Buffer.concat([header, before, body]);
}
