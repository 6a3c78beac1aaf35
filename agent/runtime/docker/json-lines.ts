/** Longest accepted line. */
const maxLineBytes = 4 * 1024 * 1024;

/**
 * Yields the JSON values of a stream that has one per line.
 * @throws SyntaxError if a line is not JSON; RangeError if it is too long
 */
export async function* jsonLines(source: AsyncIterable<Buffer>): AsyncGenerator<unknown> {
  let rest: Buffer[] = [];
  let size = 0;
  for await (const chunk of source) {
    let start = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
      const line = Buffer.concat([...rest, chunk.subarray(start, end)])
        .toString()
        .trim();
      rest = [];
      size = 0;
      start = end + 1;
      if (line !== '') yield JSON.parse(line);
    }
    if (start === chunk.length) continue;
    rest.push(chunk.subarray(start));
    size += chunk.length - start;
    if (size > maxLineBytes) throw new RangeError(`A line of the container engine is above ${maxLineBytes} bytes`);
  }
  const last = Buffer.concat(rest).toString().trim();
  if (last !== '') yield JSON.parse(last);
}
