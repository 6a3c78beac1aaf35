import { expect, test } from 'vitest';
import { engineFolders } from '../../../agent/disk/engine-folders.ts';
import { defaultContainerLimits, dockerRuntime } from '../../../agent/runtime/docker/docker-runtime.ts';
import { systemClock } from '../../../time/clock.ts';
import { testBuilds } from '../../harness/docker.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { recordingEngine } from '../../harness/recording-engine.ts';

const minute = 60_000;

test('the folders of the engine are those of its last answer, and the usual one before it gave any', async () => {
  const clock = new FakeClock();
  const answers: (readonly string[] | Error)[] = [new Error('away'), ['/mnt/one'], new Error('away'), ['/mnt/two']];
  let asked = 0;
  const folders = async (): Promise<readonly string[]> => {
    const answer = answers[asked++] ?? [];
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const now = engineFolders({ folders }, clock);
  expect(await now()).toEqual(['/var/lib/docker']);
  expect(await Promise.all([now(), now()])).toEqual([['/mnt/one'], ['/mnt/one']]);
  expect(await now()).toEqual(['/mnt/one']);
  expect(asked).toBe(2);
  await clock.advance(minute);
  expect(await now()).toEqual(['/mnt/one']);
  expect(await now()).toEqual(['/mnt/two']);
});

test.each([
  ['its root', { DockerRootDir: '/mnt/docker', DriverStatus: [['Backing Filesystem', 'extfs']] }, ['/mnt/docker']],
  [
    'its root and where containerd keeps images for it',
    { DockerRootDir: '/mnt/docker', DriverStatus: [['driver-type', 'io.containerd.snapshotter.v1']] },
    ['/mnt/docker', '/var/lib/containerd'],
  ],
])('Docker names %s', async (_, body, expected) => {
  await using engine = await recordingEngine(() => ({ status: 200, body: { ServerVersion: '29.0.0', ...body } }));
  const { socketPath } = engine;
  const containers = { ...defaultContainerLimits, memoryBytes: 2 ** 29, nanoCpus: 1e9 };
  using runtime = dockerRuntime({ socketPath, clock: systemClock, containers, builds: testBuilds });
  expect(await runtime.folders(AbortSignal.timeout(10_000))).toEqual(expected);
});
