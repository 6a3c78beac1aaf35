import { writeFile } from 'node:fs/promises';
import { relative } from 'node:path';
import type { Reporter, SerializedError, TestCase, TestModule } from 'vitest/node';
import { z } from 'zod';

/** Names the file to which the reporter writes what it saw of a layer. */
export const reportVariable = 'SETPOINT_TEST_REPORT';
/** Says which tests run: those with the tag, or, after `!`, those without it. */
export const tagsVariable = 'SETPOINT_TEST_TAGS';
/** Tag of a test that `make test` leaves to `make test-long`. */
export const longTag = 'long';

const FileReport = z.object({
  /** From the root of the project. */
  path: z.string(),
  /** From the start of its process to the end of its last test. */
  seconds: z.number(),
  passed: z.int(),
  /** Tests that did not pass, skipped ones among them; at least 1 where a setup or an end failed. */
  failed: z.int(),
  /** What did not pass, a line each, with the first line of its reason. */
  failures: z.array(z.string()),
});
/** A file of tests, as it ended. */
export type FileReport = z.infer<typeof FileReport>;

export const LayerReport = z.object({
  files: z.array(FileReport),
  /** Errors that belong to no test: an unhandled rejection, a worker that ended. */
  errors: z.array(z.string()),
});
/** A layer, as it ended. */
export type LayerReport = z.infer<typeof LayerReport>;

const root = new URL('..', import.meta.url).pathname;

/** Reporter of vitest: writes a {@link LayerReport} to the file that `SETPOINT_TEST_REPORT` names. */
export class LayerReporter implements Reporter {
  readonly #began = new Map<string, number>();
  readonly #seconds = new Map<string, number>();

  onTestModuleQueued({ moduleId }: TestModule): void {
    this.#began.set(moduleId, performance.now());
  }

  onTestModuleEnd({ moduleId }: TestModule): void {
    this.#seconds.set(moduleId, (performance.now() - (this.#began.get(moduleId) ?? performance.now())) / 1000);
  }

  async onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): Promise<void> {
    const path = process.env[reportVariable];
    if (path === undefined) return;
    const files = modules.map((module) => reportOf(module, this.#seconds.get(module.moduleId) ?? 0));
    const report: LayerReport = { files, errors: unhandled.map(firstLine) };
    await writeFile(path, JSON.stringify(report));
  }
}

function reportOf(module: TestModule, seconds: number): FileReport {
  const path = relative(root, module.moduleId);
  const tests = [...module.children.allTests()].filter(isWanted);
  const passed = tests.filter((test) => test.result().state === 'passed').length;
  // Errors of a file or of a `describe` are those of its setup, of its end, or of the code around its tests.
  const around = [module, ...module.children.allSuites()].flatMap((one) =>
    one.errors().map((error) => {
      const name = one.type === 'suite' ? `${path} > ${one.fullName}` : path;
      const hasRun = [...one.children.allTests()].some((test) => test.result().state !== 'skipped');
      return `${name} ${hasRun ? 'did not end well' : 'did not start'}: ${firstLine(error)}`;
    }),
  );
  // What a failed setup skipped is told by its setup.
  const told = tests.filter((test) => around.length === 0 || test.result().state === 'failed');
  const lines = told.flatMap((test) => {
    const { state, errors } = test.result();
    if (state === 'passed') return [];
    return [`${path} > ${test.fullName}: ${errors?.[0] === undefined ? state : firstLine(errors[0])}`];
  });
  const failed = tests.length - passed;
  return {
    path,
    seconds,
    passed,
    failed: around.length > 0 ? Math.max(failed, 1) : failed,
    failures: [...around, ...lines],
  };
}

function isWanted({ tags }: TestCase): boolean {
  const wanted = process.env[tagsVariable];
  return wanted === undefined || tags.includes(longTag) === (wanted === longTag);
}

function firstLine(error: SerializedError): string {
  const [line = ''] = error.message.split('\n');
  return line.slice(0, 300);
}
