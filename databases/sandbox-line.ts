const sandboxLine = /^\/\*M?!999999\\- enable the sandbox mode \*\/[ \t]*\r?\n/;
const mostBytes = 128;

/** Passes a dump on without the first line of newer ones of MariaDB, which older clients, and those of MySQL, refuse. */
export async function* withoutSandboxLine(
  source: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  let head: Buffer | undefined = Buffer.alloc(0);
  for await (const chunk of source) {
    if (head === undefined) {
      yield chunk;
      continue;
    }
    head = Buffer.concat([head, chunk]);
    if (head.length < mostBytes) continue;
    yield withoutLine(head);
    head = undefined;
  }
  if (head !== undefined && head.length > 0) yield withoutLine(head);
}

function withoutLine(head: Buffer): Buffer {
  const line = sandboxLine.exec(head.toString('latin1', 0, mostBytes))?.[0] ?? '';
  return head.subarray(line.length);
}
