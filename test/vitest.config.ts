import { defineConfig } from 'vitest/config';

/** One project per layer of the suite; `test/run.ts` runs them in this order. */
const layers = {
  unit: [
    'test/store/**',
    'test/controllers/**',
    'test/agent/**',
    'test/agent-protocol/**',
    'test/manifests/**',
    'test/cli/**',
  ],
  contract: ['test/contract/**'],
  api: ['test/api/**'],
  sim: ['test/sim/**'],
  e2e: ['test/e2e/**'],
  long: ['test/long/**'],
} as const;

export default defineConfig({
  test: {
    root: new URL('..', import.meta.url).pathname,
    pool: 'forks',
    projects: Object.entries(layers).map(([name, folders]) => ({
      test: {
        name,
        root: new URL('..', import.meta.url).pathname,
        include: folders.map((folder) => `${folder}/*.test.ts`),
        testTimeout: name === 'e2e' || name === 'long' ? 180_000 : 30_000,
        hookTimeout: 120_000,
        fileParallelism: name !== 'e2e' && name !== 'long',
      },
    })),
  },
});
