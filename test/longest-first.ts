import { BaseSequencer } from 'vitest/node';
import type { TestSpecification } from 'vitest/node';

/** The longest files of `e2e`, so that none of them begins as the last one. Those that build the agent come in turn. */
const longest = [
  'recovery',
  'ingress',
  'failures',
  'databases',
  'deploy',
  'volume-backups',
  'volume',
  'releases',
  'crash',
  'templates',
  'names',
  'provision',
  'crash-loop',
  'engine',
  'adopt-take',
  'functions',
  'compose',
  'install',
  'dev',
  'metrics',
  'copied-volume',
  'repair',
  'traffic',
  'readiness',
  'agent-update',
  'routed-releases',
  'no-space',
  'copied-agent',
  'restore',
  'leftovers',
].map((name) => `/test/e2e/${name}.test.ts`);
/**
 * Of layers whose files share processes, those that start many programs: each start copies the page tables of the process,
 * which are small while it has run little else.
 */
const forking = [
  'agent/tasks/build',
  'agent/ports/iptables-publisher',
  'agent/tasks/git',
  'manifests/install-script',
  'controllers/provision/job-script',
  'agent/tasks/generated-build',
  'agent/tasks/git-submodules',
  'agent/tasks/git-clones',
  'agent/tasks/read-repository',
  'manifests/machine',
  'agent/machine/server-shells',
  'agent/engine/volume-copier',
  'agent/engine/volume-archiver',
  'agent/tasks/git-access',
  'layers',
  'cli/release',
  'api/syncs',
  'api/webhooks',
  'api/sync-commits',
  'api/sync',
  'api/compose-repository',
].map((name) => `/test/${name}.test.ts`);
const first = [...longest, ...forking];

/** Begins with the files that take longest or start most programs; the others follow in the order of vitest. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const at = first.findIndex((end) => moduleId.endsWith(end));
      return at === -1 ? first.length : at;
    };
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b));
  }
}
