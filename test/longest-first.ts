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

/** Begins with the files that take longest; the others follow in the order of vitest. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const at = longest.findIndex((end) => moduleId.endsWith(end));
      return at === -1 ? longest.length : at;
    };
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b));
  }
}
