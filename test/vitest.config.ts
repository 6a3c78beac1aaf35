import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { LayerReporter, longTag } from './layer-report.ts';
import { LongestFirst } from './longest-first.ts';

/** A folder is a layer; all that is in none of the layers is `unit`, so that no test file is left out. */
const folders = ['contract', 'api', 'sim', 'e2e', 'browser', 'long', 'fresh'];
/** The layer `programs`: what starts the command, a store, an engine, git or a compiler. In `unit` that is an error. */
const programs = [
  'test/agent/dockerfiles/pick-jar.test.ts',
  'test/agent/dockerfiles/site-server.test.ts',
  'test/agent/engine/volume-{archiver,copier}.test.ts',
  'test/agent/ingress/{frozen,refusals,rolled-log,sign-in,trusted-proxies,unanswered}.test.ts',
  'test/agent/machine/*.test.ts',
  'test/agent/ports/iptables-publisher.test.ts',
  'test/agent/runtime/docker*.test.ts',
  'test/agent/tasks/{build,generated-build,git,git-access,git-clones,git-hosts,git-submodules,read-repository}.test.ts',
  'test/agent/transfer/tls.test.ts',
  'test/agent/uninstall/removal.test.ts',
  'test/agent/update/crash.test.ts',
  'test/cli/**/*.test.ts',
  'test/clients/*.test.ts',
  'test/controllers/gateway/restore.test.ts',
  'test/controllers/mail/mailer.test.ts',
  'test/controllers/operation/validate.test.ts',
  'test/controllers/provision/job-script.test.ts',
  'test/controllers/runtime/{fence,leader-etcd}.test.ts',
  'test/controllers/ssh/{connection,sudo}.test.ts',
  'test/layers.test.ts',
  'test/manifests/*.test.ts',
  'test/network/{bucket-probe,registry-login}.test.ts',
  'test/store/etcd/*.test.ts',
  'test/store/open.test.ts',
  'test/store/sqlite/{crash,open}.test.ts',
  'test/upgrade/*.test.ts',
];
/** What of the layer `api` depends on the store: transactions that meet, leases, and a mirror that lags. */
const apiOnEtcd = 'api-etcd';
const onStore = [
  'adopt-take',
  'budgets/*',
  'clone',
  'count-limits',
  'databases',
  'earlier-leader',
  'login-codes',
  'notifications',
  'one-round-trip',
  'own-writes',
  'population',
  'races',
  'restores',
  'stream-tickets',
  'tenant-deletion',
  'tokens',
  'unavailable',
].map((name) => `test/api/${name}.test.ts`);
/** The rest of it: what both stores do alike is shown of the stores themselves, in `contract/`. */
const apiOnEtcdToo = 'api-etcd-rest';
/**
 * What another store changes nothing of: these compare tables, look at texts, or are refused before a transaction. What
 * is accepted of the permission sweep is in `own-writes`, for each route.
 */
const withoutStore = [
  'adoption/plan',
  'authorize',
  'bodies',
  'count-limits-table',
  'content',
  'http-server',
  'icon',
  'known-host',
  'limits',
  'long-bodies',
  'messages',
  'openapi',
  'passwords',
  'permission-sweep',
  'protocol',
  'references',
  'routes',
].map((name) => `test/api/${name}.test.ts`);

/** Files of a layer at once, where that is more than two: half of what these do is wait. */
const workers: Readonly<Record<string, number>> = { api: 3, programs: 3, e2e: 6, browser: 4 };

const root = new URL('..', import.meta.url).pathname;
const testsOf = (folder: string) => `test/${folder}/**/*.test.ts`;
const filesOf = (layer: string): string[] => {
  if (layer === 'unit') return ['test/**/*.test.ts'];
  if (layer === 'programs') return programs;
  if (layer === apiOnEtcd) return onStore;
  return [testsOf(layer === apiOnEtcdToo ? 'api' : layer)];
};

function excludedFrom(layer: string): string[] {
  if (layer === 'unit') return [...folders.map(testsOf), ...programs];
  return layer === apiOnEtcdToo ? [...onStore, ...withoutStore] : [];
}

/** Layers whose files share the modules of a process: no file leaves anything behind in them. */
const shared = ['unit', 'api', apiOnEtcd, apiOnEtcdToo, 'sim', 'programs'];

/** Layers that start no programs, or few. */
const computing = ['unit', 'api', apiOnEtcd, apiOnEtcdToo, 'sim'];

/** What the files of a layer load first. */
const setup: Readonly<Record<string, string[]>> = {
  unit: ['test/harness/no-programs.ts'],
  [apiOnEtcd]: ['test/harness/on-etcd.ts'],
  [apiOnEtcdToo]: ['test/harness/on-etcd.ts'],
};

/** One project per layer of the suite; `test/run.ts` runs them in this order. */
export default defineConfig({
  test: {
    root,
    tags: [{ name: longTag, description: 'left to `make test-long`' }],
    sequence: { sequencer: LongestFirst },
    reporters: ['default', new LayerReporter()],
    projects: ['unit', 'programs', ...folders, apiOnEtcd, apiOnEtcdToo].map((name) => {
      const onMachine = ['e2e', 'browser', 'long', 'fresh'].includes(name);
      const isAlone = name === 'long' || name === 'fresh';
      return {
        test: {
          name,
          root,
          include: filesOf(name),
          exclude: excludedFrom(name),
          setupFiles: setup[name] ?? [],
          pool: 'forks',
          // Most of what tests make is garbage at once: it is collected in larger parts, a tenth less work in worlds of `sim`.
          // What starts programs is small instead: each start copies the page tables of the process.
          execArgv: [`--max-semi-space-size=${computing.includes(name) ? 64 : 8}`],
          // A third of the time of many small files would be the loading of the same modules.
          isolate: !shared.includes(name),
          // Node loads the modules itself, as it does those of the product; `unit` replaces some, and loads pages of the console.
          experimental: { viteModuleRunner: name === 'unit', nodeLoader: false },
          // most of what `programs` and installations do is wait
          maxWorkers: isAlone ? 1 : Math.max(workers[name] ?? 2, availableParallelism()),
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
