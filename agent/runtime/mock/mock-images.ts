import type { MockEngine } from './mock-engine.ts';
import type { ImageScript, RunScript } from './script.ts';

const serves: RunScript = { output: [{ afterMs: 0, text: 'Listening' }] };

/** What becomes of images on an engine that is there for trying things out, by their tag. */
const byTag: Readonly<Record<string, ImageScript | undefined>> = {
  missing: undefined,
  crashing: { runs: { runForMs: 50, exitCode: 1, output: [{ afterMs: 0, text: 'Cannot start', stream: 'stderr' }] } },
};

/** Lets every image be pulled and run, and every build succeed, but for the tags `missing` and `crashing`. */
export function stockImages(engine: MockEngine): void {
  engine.onPull((reference) => {
    const tag = reference.slice(reference.lastIndexOf(':') + 1);
    return Object.hasOwn(byTag, tag) ? byTag[tag] : { runs: serves };
  });
  engine.onBuild(({ tag }) => ({ lines: [`The mock engine makes ${tag}`], runs: serves }));
}
