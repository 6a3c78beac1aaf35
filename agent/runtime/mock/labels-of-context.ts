import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { text } from 'node:stream/consumers';

/** Returns the labels of the `LABEL` instructions in a build context's Dockerfile. Understands only plain words. */
export async function labelsOfContext(context: Buffer, dockerfile: string): Promise<Record<string, string>> {
  const { extract } = await import('tar-stream');
  const archive = extract();
  const reading = pipeline(Readable.from([context]), archive);
  const labels: Record<string, string> = {};
  for await (const entry of archive) {
    const content = await text(entry);
    if (entry.header.name !== dockerfile) continue;
    for (const line of content.split('\n').filter((it) => it.startsWith('LABEL '))) {
      for (const [, name = '', value = ''] of line.matchAll(/([\w.-]+)=([\w.-]+)/g)) labels[name] = value;
    }
  }
  await reading;
  return labels;
}
