import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Diagnosis, Healing } from '../../agent-protocol/diagnosis.ts';
import type { CheckResult } from '../../agent-protocol/diagnosis.ts';
import type { Agent } from '../../agent/agent.ts';
import { startAgent } from '../../agent/agent.ts';
import { folderArchiver } from '../../agent/engine/volume-archiver.ts';
import { folderCopier } from '../../agent/engine/volume-copier.ts';
import { engineTrouble } from '../../agent/engine/engine-trouble.ts';
import { MockPorts } from '../../agent/ports/mock-ports.ts';
import { noSteps } from '../../agent/ports/step-guard.ts';
import { dockerWords } from '../../agent/runtime/docker/trouble-words.ts';
import { prober } from '../../agent/runtime/probe.ts';
import { labels, type ContainerRuntime } from '../../agent/runtime/runtime.ts';
import { systemClock } from '../../time/clock.ts';
import type { TestDocker } from '../harness/docker.ts';
import { testDocker } from '../harness/docker.ts';
import { docker as byCommand, removeEverythingOf } from '../harness/engine.ts';
import { joinToken } from '../harness/join-token.ts';
import { openImages } from '../harness/open-images.ts';
import { ensureTestImages } from '../harness/test-image.ts';

/** Servers whose agents are gone: of one nothing runs any more, of the other a container does. */
const still = randomUUID();
const alive = randomUUID();
const tag = randomUUID().slice(0, 8);

let docker: TestDocker;
let shell: string;
let dir: string;
let agent: Agent;

const of = (server: string): string[] => ['--label', `${labels.server}=${server}`];
const networkOf = (server: string): string => `sp-${server.replaceAll('-', '').slice(0, 12)}`;
const has = async (kind: 'container' | 'network' | 'volume', name: string): Promise<boolean> =>
  byCommand(kind, 'inspect', name).then(
    () => true,
    () => false,
  );

/** A container as the agent of that server makes it, or with another name. Answers with its id. */
async function container(how: 'create' | 'run', server: string, name?: string): Promise<string> {
  const assignment = randomUUID();
  const named = name ?? `sp-web-${assignment.slice(0, 8)}`;
  const detached = how === 'run' ? ['--detach'] : [];
  const flags = [...detached, '--name', named, ...of(server), '--label', `${labels.assignment}=${assignment}`];
  const network = name === undefined ? ['--network', networkOf(server)] : [];
  return (await byCommand(how, ...flags, ...network, shell)).trim();
}

async function volume(name: string, ...flags: string[]): Promise<string> {
  await byCommand('volume', 'create', ...flags, name);
  return name;
}

/** The engine, but of what agents left on it only what this test made: others use the same engine. */
function narrowed(runtime: ContainerRuntime): ContainerRuntime {
  const mine = new Set([docker.server, still, alive]);
  return {
    ...runtime,
    belongings: async (signal) => (await runtime.belongings(signal)).filter(({ server }) => mine.has(server)),
    volumes: async (given, signal) =>
      (await runtime.volumes(given, signal)).filter(({ labels: own }) => mine.has(own[labels.server] ?? '')),
  };
}

async function diagnose(): Promise<Map<string, CheckResult>> {
  const answer = await agent.backend.call({ method: 'diagnose' }, AbortSignal.timeout(30_000));
  return new Map(Diagnosis.parse(answer).checks.map((check) => [check.name, check]));
}

async function heal(): Promise<Healing['actions']> {
  const checks = ['orphaned_containers', 'orphaned_networks', 'orphaned_volumes'] as const;
  const answer = await agent.backend.call({ method: 'heal', checks: [...checks] }, AbortSignal.timeout(60_000));
  return Healing.parse(answer).actions;
}

beforeAll(async () => {
  docker = await testDocker();
  ({ shell } = await ensureTestImages());
  dir = await mkdtemp(join(tmpdir(), 'setpoint-heal-'));
  const runtime = narrowed(docker.runtime);
  agent = await startAgent({
    joinToken: joinToken(docker.server),
    dataDir: dir,
    engine: {
      runtime,
      ports: new MockPorts().publisher(),
      hasRules: false,
      steps: noSteps,
      copier: folderCopier(runtime, dir, systemClock),
      archiver: folderArchiver(runtime, dir),
      prober: prober({ clock: systemClock, runtime }),
      trouble: (error) => engineTrouble(dockerWords, error),
    },
    images: await openImages(runtime, dir),
    build: () => Promise.reject(new Error('No build is expected')),
    gitHead: () => Promise.reject(new Error('No git is expected')),
    gitTag: () => Promise.reject(new Error('No git is expected')),
    dockerfiles: () => Promise.reject(new Error('No git is expected')),
    repositories: () => Promise.reject(new Error('No git is expected')),
    disk: () => Promise.resolve({ freeBytes: 1e12, totalBytes: 1e12 }),
    outside: { resolve: async () => ['192.0.2.1'], ask: async () => 401, connect: async () => undefined },
    identities: async () => ({ living: new Set([docker.server]), unknown: false }),
    logBytes: 1e9,
    version: '0.0.0',
    clock: systemClock,
    random: Math.random,
    log: pino({ level: process.env['TEST_LOG'] ?? 'silent' }),
  });
  agent.backend.trusts(true);
  await agent.backend.snapshot({ incarnation: 'one', revision: 1 }, [], [], []);
  await agent.settled();
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
  await byCommand('rm', '--force', `their-db-${tag}`, `their-web-${tag}`).catch(() => undefined);
  for (const server of [still, alive]) await removeEverythingOf(server);
  for (const name of [`full-${tag}`, `empty-${tag}`, `needed-${tag}`, `theirs-${tag}`])
    await byCommand('volume', 'rm', name).catch(() => undefined);
  await byCommand('network', 'rm', `their-net-${tag}`).catch(() => undefined);
  await docker[Symbol.asyncDispose]();
});

describe('a machine with what agents left on it', () => {
  it('is examined by its real engine', async () => {
    const checks = await diagnose();
    expect(checks.get('engine')?.message).toMatch(/answers, version \d+\./);
    expect(checks.get('address_pools')?.message).toMatch(/\d+ of the \d+ networks/);
    for (const name of ['runc', 'live_restore', 'proxy', 'orphaned_containers', 'inotify', 'memory', 'port_80'])
      expect(checks.get(name)?.message).not.toMatch(/did not answer|could not be examined/);
  });

  it('loses by healing what nothing needs; what runs, has data or is of others stays, also twice at once', async () => {
    for (const server of [still, alive]) await byCommand('network', 'create', ...of(server), networkOf(server));
    const stopped = await container('create', still);
    const running = await container('run', alive);
    const copied = await container('create', still, `their-db-${tag}`);
    const foreign = (await byCommand('run', '--detach', '--name', `their-web-${tag}`, shell)).trim();
    await byCommand('network', 'create', ...of(still), `their-net-${tag}`);
    const empty = await volume(`empty-${tag}`, ...of(docker.server));
    const needed = await volume(`needed-${tag}`, ...of(still));
    const full = await volume(`full-${tag}`, ...of(still));
    await byCommand('run', '--rm', '--volume', `${full}:/data`, shell, '/bin/sh', '-c', 'echo rows > /data/table');
    const theirs = await volume(`theirs-${tag}`);

    const found = await diagnose();
    expect(found.get('orphaned_containers')).toMatchObject({ status: 'warn', auto_fixable: true });
    expect(found.get('orphaned_containers')?.message).toContain('1 stopped and 1 running');
    expect(found.get('orphaned_networks')).toMatchObject({ status: 'warn', auto_fixable: true });
    expect(found.get('orphaned_volumes')).toMatchObject({ status: 'warn', auto_fixable: true });

    const actions = (await Promise.all([heal(), heal()])).flat();
    const done = actions.filter(({ status }) => status === 'done').map(({ target }) => target);
    // the agent itself removes the network of its own server, which the harness made, at about the same time
    expect(new Set(done.filter((target) => target !== docker.network))).toEqual(
      new Set([stopped.slice(0, 12), networkOf(still), empty]),
    );
    expect(done.filter((target) => target === stopped.slice(0, 12))).toHaveLength(1);
    // of a check with nothing to heal any more, the second request tells as a whole what is left to do
    const left = new Set(actions.flatMap(({ status, target }) => (status === 'skipped' ? (target ?? []) : [])));
    expect(left).toEqual(new Set([running.slice(0, 12), networkOf(alive), full, needed]));
    expect(actions.filter(({ status }) => status === 'failed')).toEqual([]);

    expect([
      await has('container', stopped),
      await has('network', networkOf(still)),
      await has('volume', empty),
    ]).toEqual([false, false, false]);
    for (const id of [running, copied, foreign]) expect(await has('container', id)).toBe(true);
    for (const name of [networkOf(alive), `their-net-${tag}`]) expect(await has('network', name)).toBe(true);
    for (const name of [full, theirs]) expect(await has('volume', name)).toBe(true);
    const content = await byCommand('run', '--rm', '--volume', `${full}:/data`, shell, '/bin/cat', '/data/table');
    expect(content.trim()).toBe('rows');
  });
});
