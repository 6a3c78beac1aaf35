import type * as ChildProcess from 'node:child_process';
import { vi } from 'vitest';

/** Tests that start programs are in the layer `programs`, so that all others are quick. */
vi.mock('node:child_process', async (original) => {
  const real = await original<typeof ChildProcess>();
  const refuse = (): never => {
    throw new Error(
      'A test of the layer `unit` starts a program: name its file in `programs` of test/vitest.config.ts',
    );
  };
  return { ...real, spawn: refuse, execFile: refuse, fork: refuse, spawnSync: refuse, execFileSync: refuse };
});
