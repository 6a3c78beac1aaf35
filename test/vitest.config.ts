import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

/** A folder is a layer; all that is in none of these is `unit`, so that no test file is left out. */
const folders = ['contract', 'api', 'sim', 'e2e', 'browser', 'long', 'fresh'];
/** The layer `api` once more, on the other store. */
const apiOnEtcd = 'api-etcd';

const root = new URL('..', import.meta.url).pathname;
const testsOf = (folder: string) => `test/${folder}/**/*.test.ts`;

/** One project per layer of the suite; `test/run.ts` runs them in this order. */
export default defineConfig({
  test: {
    root,
    projects: ['unit', ...folders, apiOnEtcd].map((name) => {
      const onMachine = ['e2e', 'browser', 'long', 'fresh'].includes(name);
      const isAlone = name === 'long' || name === 'fresh';
      return {
        test: {
          name,
          root,
          include: name === 'unit' ? ['test/**/*.test.ts'] : [testsOf(name === apiOnEtcd ? 'api' : name)],
          exclude: name === 'unit' ? folders.map(testsOf) : [],
          setupFiles: name === apiOnEtcd ? ['test/harness/on-etcd.ts'] : [],
          pool: 'forks',
          maxWorkers: isAlone ? 1 : Math.max(onMachine ? 4 : 2, availableParallelism()),
          fileParallelism: !isAlone,
          // What tests on the machine do is wait: for builds, for ten quiet seconds.
          maxConcurrency: onMachine ? 24 : 5,
          // Longer than `until` waits by itself, whose failure says what did not happen.
          testTimeout: name === 'fresh' ? 90 * 60_000 : onMachine ? 180_000 : 45_000,
          hookTimeout: 120_000,
        },
      };
    }),
  },
});
