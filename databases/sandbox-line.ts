const sandboxLine = /^\/\*M?!999999\\- enable the sandbox mode \*\/[ \t]*\r?\n/;
const mostBytes = 128;

/** Passes a dump on without the first line of newer ones of MariaDB, which older clients, and those of MySQL, refuse. */
export async function* withoutSandboxLine(
  source: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  let head = new Uint8Array();
  let isPast = false;
  for await (const chunk of source) {
    if (isPast) {
      yield chunk;
      continue;
    }
    head = joined(head, chunk);
    if (head.length < mostBytes) continue;
    isPast = true;
    yield withoutLine(head);
  }
  if (!isPast && head.length > 0) yield withoutLine(head);
}

function withoutLine(head: Uint8Array): Uint8Array {
  const text = new TextDecoder('latin1').decode(head.subarray(0, mostBytes));
  return head.subarray(sandboxLine.exec(text)?.[0].length ?? 0);
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(first.length + second.length);
  all.set(first);
  all.set(second, first.length);
  return all;
}
