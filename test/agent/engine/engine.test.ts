import { pino } from 'pino';
import { expect, test } from 'vitest';
import { systemClock } from '../../../time/clock.ts';
import { engineOf, type Engine } from '../../../agent/engine/engine.ts';
import { defaultContainerLimits } from '../../../agent/runtime/docker/docker-runtime.ts';
import { testBuilds } from '../../harness/docker.ts';

const engines: Record<string, () => Promise<Engine>> = {
  docker: () =>
    engineOf({
      type: 'docker',
      options: {
        socketPath: '/nowhere/docker.sock',
        clock: systemClock,
        containers: defaultContainerLimits,
        builds: testBuilds,
      },
      server: 'server-1',
      owner: '/data',
      takeOverPorts: false,
      log: pino({ level: 'silent' }),
    }),
  mock: () => engineOf({ type: 'mock', clock: systemClock }),
};

test.each(Object.keys(engines))('the engine %s has the runtime of its name', async (name) => {
  expect((await engines[name]!()).runtime.name).toBe(name);
});

test('the trouble of an engine is described in the words of its own tools', async () => {
  const docker = await engines['docker']!();
  const failure: unknown = await docker.runtime.version(AbortSignal.timeout(10_000)).catch((error: unknown) => error);
  expect(docker.trouble(failure)).toEqual({
    reason: 'EngineNotRunning',
    message: expect.stringMatching(
      /^The container engine does not answer at \/nowhere\/docker\.sock: .*systemctl start/,
    ),
  });
  const mock = await engines['mock']!();
  const { reason, message } = mock.trouble(new Error('Listing containers did not end within 30000 ms'));
  expect(reason).toBe('EngineHangs');
  expect(message).not.toMatch(/docker/i);
});

test('a mock engine of its own has an image of every name', async () => {
  const { runtime } = await engines['mock']!();
  await expect(runtime.pull('any/thing:1', AbortSignal.timeout(10_000))).resolves.toMatchObject({ labels: {} });
});
