import type { MockEngine } from './mock-engine.ts';
import type { ImageScript, RunScript } from './script.ts';

const serves: RunScript = { output: [{ afterMs: 0, text: 'Listening' }] };

/** Scripts of images by their tag, for an engine to try things out. */
const byTag: Readonly<Record<string, ImageScript | undefined>> = {
  missing: undefined,
  crashing: { runs: { runForMs: 50, exitCode: 1, output: [{ afterMs: 0, text: 'Cannot start', stream: 'stderr' }] } },
};

/** Makes every pull, run and build succeed, except for images with the tags `missing` and `crashing`. */
export function stockImages(engine: MockEngine): void {
  engine.onPull((reference) => {
    const tag = reference.slice(reference.lastIndexOf(':') + 1);
    return Object.hasOwn(byTag, tag) ? byTag[tag] : { runs: serves };
  });
  engine.onBuild(({ tag }) => ({ lines: [`The mock engine makes ${tag}`], runs: serves }));
}
