import type { Strays, World } from '../../../agent/diagnose/world.ts';

const GiB = 1024 ** 3;

/** Nothing was left by any agent. */
export const noStrays: Strays = {
  containers: async () => [],
  networks: async () => [],
  volumes: async () => [],
  removeContainer: async () => undefined,
  removeNetwork: async () => undefined,
  removeVolume: async () => undefined,
};

/** A machine on which there is nothing to complain of. */
export const quietWorld: World = {
  engine: async () => ({
    version: '29.1.0',
    runc: '1.3.3',
    liveRestore: true,
    proxy: { http: '', https: '', none: '' },
    addresses: { total: 31, free: 20, hasSpare: true },
  }),
  trouble: () => undefined,
  disk: async () => ({ freeBytes: 50 * GiB, totalBytes: 100 * GiB, files: { free: 900, total: 1000 } }),
  memory: async () => ({ total: 8 * GiB, available: 4 * GiB }),
  inotify: async () => ({ instances: 10, maxInstances: 128, maxWatches: 65_536 }),
  git: async () => ({ major: 2, minor: 37, text: '2.37.0' }),
  controlHosts: ['control.example.test'],
  registries: () => ['registry-1.docker.io'],
  resolve: async () => ['192.0.2.1'],
  ask: async () => 401,
  connect: async () => undefined,
  port: () => ({ isWanted: false, problem: undefined }),
  listeners: async () => new Set(),
  userOfPort: async () => undefined,
  rulesOf: async () => undefined,
  engineRules: async () => undefined,
  strays: noStrays,
  logs: { size: { bytes: GiB, maxBytes: 10 * GiB }, probe: async () => undefined, prune: async () => undefined },
  wordsOf: (error) => (error instanceof Error ? error.message : String(error)),
  clean: async () => 0,
};
