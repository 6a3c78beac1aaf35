import type { Clock } from '../../time/clock.ts';
import { MockPorts } from '../ports/mock-ports.ts';
import { noSteps } from '../ports/step-guard.ts';
import { MockEngine } from '../runtime/mock/mock-engine.ts';
import { stockImages } from '../runtime/mock/mock-images.ts';
import { mockProber, mockRuntime } from '../runtime/mock/mock-runtime.ts';
import type { TroubleWords } from '../runtime/trouble-words.ts';
import type { Engine, MockSettings } from './engine.ts';
import { engineTrouble } from './engine-trouble.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';
import type { VolumeArchiver } from './volume-archiver.ts';

const words: TroubleWords = { byCode: {}, hangs: 'it takes calls and does not answer them. Restart the agent' };

/** An engine in memory, for demonstrations and tests. */
export function openMock({
  clock,
  engine = stocked(clock),
  ports = new MockPorts().publisher(),
}: MockSettings): Engine {
  return {
    runtime: mockRuntime(engine),
    ports,
    hasRules: false,
    steps: noSteps,
    copier: engine.volumes.copier(),
    archiver: noArchives,
    prober: mockProber(engine),
    trouble: (error) => engineTrouble(words, error),
  };
}

const noFolders = (): Promise<never> =>
  Promise.reject(
    new RuntimeFailure('backup_failed', 'The volumes of this server are in memory: nothing archives them', {
      retryable: false,
    }),
  );
const noArchives: VolumeArchiver = { pack: noFolders, unpack: noFolders, isRead: () => false };

function stocked(clock: Clock): MockEngine {
  const engine = new MockEngine(clock);
  stockImages(engine);
  return engine;
}
