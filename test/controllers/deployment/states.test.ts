import { describe, expect, it } from 'vitest';
import { plan } from '../../../controllers/deployment/plan.ts';
import { taskState } from '../../../controllers/task/task.ts';
import { advance } from '../../../controllers/deployment/states.ts';
import type { World } from '../../../controllers/deployment/states.ts';
import type { DesiredOf, ObservedOf } from '../../../store/kinds/kinds.ts';
import type { ReadonlyResource, Resource } from '../../../store/resource.ts';
import { aDeployment, anApplication, object } from '../../harness/objects.ts';
import { desiredState } from '../../harness/states.ts';
import { serviceSpec } from '../../harness/wire-items.ts';

const now = '2026-01-01T00:01:00.000Z';
const git = {
  type: 'git' as const,
  repository_url: 'https://example.test/a.git',
  branch: 'main',
  dockerfile_path: 'Dockerfile',
  build_context: '.',
  build_args: {},
};

interface Given {
  source?: DesiredOf<'application'>['source'];
  app?: Partial<DesiredOf<'application'>> | 'gone' | 'deleting';
  deployment?: Partial<DesiredOf<'deployment'>>;
  observed?: ObservedOf<'deployment'>;
  build?: Partial<ObservedOf<'assignment'>>;
  slots?: Partial<ObservedOf<'assignment'>>[];
  expired?: boolean;
  isUnhealthy?: boolean;
  serverGone?: boolean;
  serverAway?: 'offline' | 'engine';
  olderLive?: boolean;
  mounted?: World['mounted'];
  attempt?: number;
}

function world(given: Given): World {
  const source = given.source ?? { type: 'image' as const, image_url: 'example/web:1' };
  const base = anApplication({ source });
  const deployment = aDeployment(base, { source, ...given.deployment }, given.observed);
  const overrides = typeof given.app === 'object' ? given.app : {};
  const application = anApplication(
    { ...base.desired, deployment_id: deployment.meta.id, ...overrides },
    { id: base.meta.id, deleting: given.app === 'deleting' },
  );
  const spec = serviceSpec({ image: 'i' });
  return {
    deployment,
    application: given.app === 'gone' ? undefined : application,
    build:
      given.build === undefined
        ? undefined
        : assignment(
            deployment,
            { ...git, type: 'build', image: 'setpoint/web:1', deadline_seconds: 60, attempt: given.attempt ?? 1 },
            given.build,
          ),
    builds: new Map(),
    reading: undefined,
    serverGone: given.serverGone ?? false,
    serverAway: given.serverAway,
    slots: (given.slots ?? []).map((report, slot) => assignment(deployment, { ...spec, slot }, report)),
    olderLive: given.olderLive ?? false,
    mounted: given.mounted ?? [],
    resolution: undefined,
    expired: given.expired ?? false,
    isUnhealthy: given.isUnhealthy ?? false,
    now,
  };
}

function assignment(
  deployment: Resource<'deployment'>,
  spec: object,
  report: Partial<ObservedOf<'assignment'>>,
): Resource<'assignment'> {
  return object(
    'assignment',
    {
      server_id: deployment.desired.server_id,
      project_id: deployment.desired.project_id,
      environment_id: deployment.desired.environment_id,
      workload_id: deployment.desired.application_id,
      version: deployment.meta.id,
      spec,
    },
    { observed: { phase: 'running', ready: false, stable: false, restarts: 0, crash_loop: false, ...report } },
  );
}

const stable = { ready: true, stable: true };
const deploying: ObservedOf<'deployment'> = { phase: 'deploying', image: 'example/web:1' };
const building: ObservedOf<'deployment'> = { phase: 'building' };

describe('a deployment whose image to reuse is gone', () => {
  const commit = 'c'.repeat(40);
  const reuse = { image: 'setpoint/web:1', image_digest: 'sha256:1', commit, commit_message: 'first' };
  const rolledBack = { phase: 'deploying' as const, ...reuse };
  const lost = { error: { code: 'image_not_found', message: 'It can only be built again' } };
  const rebuilt: ObservedOf<'deployment'> = { ...rolledBack, image: 'setpoint/web:8', built_at: now };
  const built = { phase: 'succeeded' as const, image_digest: 'sha256:8', commit };

  it('builds its commit again, and goes on with the new image', () => {
    const first = world({ source: git, deployment: { reuse }, observed: rolledBack, slots: [lost] });
    const observed = advance(first);
    expect(observed).toMatchObject({ phase: 'building', commit, commit_message: 'first' });
    expect(observed).not.toHaveProperty('image');
    const [action] = plan(first, observed, 60_000);
    expect(action).toMatchObject({ do: 'ensure', desired: { spec: { type: 'build', branch: 'main', commit } } });

    const second = advance(world({ source: git, deployment: { reuse }, observed, build: built }));
    expect(second).toMatchObject({ phase: 'deploying', image: 'setpoint/web:1', image_digest: 'sha256:8', commit });
    expect(second.built_at).toBe(now);
  });

  it('waits for instances of the new image, whatever those of the lost one say', () => {
    const given = { source: git, deployment: { reuse }, observed: rebuilt, slots: [lost] };
    expect(advance(world(given)).phase).toBe('deploying');
  });

  it('fails if the image is gone once more, if its commit is not known, and if another one was built', () => {
    const again = world({ source: git, deployment: { reuse }, observed: { ...rebuilt, image: 'i' }, slots: [lost] });
    expect(advance(again)).toMatchObject({ phase: 'failed', error: { code: 'image_not_found' } });
    const { commit: _, ...unknown } = reuse;
    const blind = world({ source: git, deployment: { reuse: unknown }, observed: rolledBack, slots: [lost] });
    expect(advance(blind)).toMatchObject({ phase: 'failed', error: { code: 'image_not_found' } });
    const other = { ...built, commit: 'd'.repeat(40) };
    expect(
      advance(world({ source: git, deployment: { reuse }, observed: { phase: 'building', commit }, build: other })),
    ).toMatchObject({ phase: 'failed', error: { code: 'build_failed' } });
  });
});

it('of a build that was late says what to do, whoever noticed', () => {
  const observed = { phase: 'building' } as const;
  const error = { code: 'build_timeout', message: 'The build did not end within 5 s' };
  const ofAgent = advance(world({ source: git, observed, build: { phase: 'failed', error } }));
  const own = advance(world({ source: git, observed, build: {}, expired: true }));
  for (const it of [ofAgent, own]) expect(it.error?.message).toContain('a longer --build-deadline-seconds');
});

describe('the phase of a deployment', () => {
  const table: [string, Given, string][] = [
    ['an image needs no build', {}, 'deploying'],
    ['a git source waits for its build to be taken up', { source: git }, 'queued'],
    ['a build that has begun is under way', { source: git, build: { phase: 'preparing' } }, 'building'],
    ['a build that waits for others on its server', { source: git, build: { phase: 'pending' } }, 'queued'],
    ['a server that never came', { source: git, expired: true }, 'failed'],
    [
      'a built image is reused',
      { source: git, deployment: { reuse: { image: 'x', image_digest: 'sha256:1' } } },
      'deploying',
    ],
    [
      'a finished build',
      { source: git, observed: { phase: 'building' }, build: { phase: 'succeeded', image_digest: 'sha256:1' } },
      'deploying',
    ],
    [
      'a failed build',
      {
        source: git,
        observed: { phase: 'building' },
        build: { phase: 'failed', error: { code: 'build_failed', message: 'no' } },
      },
      'failed',
    ],
    ['a build that does not end', { source: git, observed: { phase: 'building' }, build: {}, expired: true }, 'failed'],
    [
      'a build that was lost is tried again',
      { source: git, observed: { phase: 'building' }, build: { phase: 'lost' } },
      'building',
    ],
    [
      'a build that was lost three times',
      { source: git, observed: { phase: 'building' }, build: { phase: 'lost' }, attempt: 3 },
      'failed',
    ],
    ['a deleted server, before the build', { source: git, serverGone: true }, 'failed'],
    ['a deleted server, during the rollout', { observed: deploying, slots: [{}], serverGone: true }, 'failed'],
    ['no instance yet', { observed: deploying }, 'deploying'],
    ['ready, but not for long enough', { observed: deploying, slots: [{ ready: true }] }, 'deploying'],
    ['stable', { observed: deploying, slots: [stable] }, 'succeeded'],
    ['stable, and an older one still answers', { observed: deploying, slots: [stable], olderLive: true }, 'deploying'],
    [
      'stable, and an older one cannot be stopped',
      { observed: deploying, slots: [stable], olderLive: true, expired: true },
      'succeeded',
    ],
    ['not every instance is stable', { observed: deploying, app: { replicas: 2 }, slots: [stable, {}] }, 'deploying'],
    [
      'one exit is no verdict',
      { observed: deploying, slots: [{ error: { code: 'exited', message: 'It exited with code 1' } }] },
      'deploying',
    ],
    [
      'a crash loop',
      {
        observed: deploying,
        slots: [{ crash_loop: true, error: { code: 'exited', message: 'It exited with code 1' } }],
      },
      'failed',
    ],
    [
      'no such image',
      { observed: deploying, slots: [{ phase: 'preparing', error: { code: 'image_not_found', message: 'no' } }] },
      'failed',
    ],
    [
      'never healthy',
      { observed: deploying, slots: [{ error: { code: 'unhealthy', message: '500' } }], expired: true },
      'failed',
    ],
    [
      'overtaken',
      { observed: deploying, app: { deployment_id: '6f1d2a52-8f0e-4a61-9b57-0a4ac61ee7a1' } },
      'superseded',
    ],
    ['cancelled', { observed: deploying, deployment: { cancel_requested: true } }, 'cancelled'],
    ['stopped meanwhile', { observed: deploying, app: { run: 'stopped' } }, 'cancelled'],
    ['application deleted', { observed: deploying, app: 'deleting' }, 'cancelled'],
    ['application gone', { observed: deploying, app: 'gone' }, 'cancelled'],
    ['success stays', { observed: { phase: 'succeeded' }, app: 'gone' }, 'succeeded'],
    ['a rollout whose engine is away waits', { observed: deploying, slots: [{}], serverAway: 'engine' }, 'deploying'],
    ['failure stays', { observed: { phase: 'failed' }, slots: [stable] }, 'failed'],
  ];

  it.each(table)('%s', (_name, given, phase) => {
    expect(advance(world(given)).phase).toBe(phase);
  });

  const codes: [string, string][] = [
    ['image_not_found', 'failed'],
    ['create_failed', 'failed'],
    ['port_taken', 'failed'],
    ['name_taken', 'failed'],
    ['invalid_source', 'failed'],
    ['exited', 'deploying'],
    ['unhealthy', 'deploying'],
    ['runtime_unavailable', 'deploying'],
  ];

  it.each(codes)('after an instance reported %s is %s', (code, phase) => {
    const given = { observed: deploying, slots: [{ error: { code, message: 'It did not work' } }] };
    expect(advance(world(given)).phase).toBe(phase);
  });

  it('is no success by an instance that was stable and is to stop now', () => {
    const given = world({ observed: deploying, slots: [stable] });
    const [slot] = given.slots;
    const stopped = { ...slot!, desired: { ...slot!.desired, run: 'stopped' as const } };
    expect(advance(given).phase).toBe('succeeded');
    expect(advance({ ...given, slots: [stopped] }).phase).toBe('deploying');
  });

  it('names the commit that could not be built, where the server came so far', () => {
    const error = { code: 'build_failed', message: 'no' };
    const failed = (known: Partial<ObservedOf<'assignment'>>, observed = building) =>
      advance(world({ source: git, observed, build: { phase: 'failed', error, ...known } }));
    const commit = 'c'.repeat(40);
    expect(failed({ commit, commit_message: 'Break it' })).toMatchObject({
      phase: 'failed',
      error,
      commit,
      commit_message: 'Break it',
    });
    expect(failed({})).not.toHaveProperty('commit');
    const again = { ...building, commit, commit_message: 'first' };
    expect(failed({}, again)).toMatchObject({ phase: 'failed', commit, commit_message: 'first' });
  });

  it.each<[ObservedOf<'deployment'> | undefined]>([[undefined], [{ phase: 'deploying', image: 'example/web:1' }]])(
    'fails at once for a command that was stored although it is none, from %j',
    (observed) => {
      const config = { env: {}, restart_policy: 'always' as const, start_command: 'sh -c "echo hi' };
      expect(advance(world({ deployment: { config }, ...(observed && { observed }) }))).toMatchObject({
        phase: 'failed',
        error: {
          code: 'invalid_config',
          message: 'start_command is wrong: Must close every quote: " is open. Change it and deploy',
        },
      });
    },
  );

  it('says why it failed, in the words of the instance', () => {
    const failed = advance(
      world({
        observed: deploying,
        slots: [{ error: { code: 'unhealthy', message: 'GET /healthz answered 500' } }],
        expired: true,
      }),
    );
    expect(failed.error).toEqual({ code: 'unhealthy', message: 'GET /healthz answered 500' });
    expect(failed.finished_at).toBe(now);
  });

  it('names a lost volume as its users do', () => {
    const lost = object('volume', desiredState('volume', { name: 'notes' }));
    const error = { code: 'data_lost', message: `Volume sp-vol-${lost.meta.id} does not exist` };
    const failed = advance(world({ observed: deploying, mounted: [lost], slots: [{ phase: 'failed', error }] }));
    expect(failed.error).toEqual({ code: 'data_lost', message: 'Volume notes does not exist' });
  });

  const hopeless = { crash_loop: true, error: { code: 'exited', message: 'It exited with code 1' } };
  const decisive: [string, Given][] = [
    ['a stable instance', { observed: deploying, slots: [stable] }],
    ['a crash loop', { observed: deploying, slots: [hopeless] }],
    ['an instance that failed', { observed: deploying, slots: [{ ...hopeless, phase: 'failed', crash_loop: false }] }],
    ['a missing image', { observed: deploying, slots: [{ error: { code: 'image_not_found', message: 'no' } }] }],
    ['a finished build', { source: git, observed: building, build: { phase: 'succeeded', image_digest: 'sha256:1' } }],
    ['a failed build', { source: git, observed: building, build: { phase: 'failed' } }],
    ['a build lost for good', { source: git, observed: building, build: { phase: 'lost' }, attempt: 3 }],
  ];

  it.each(decisive)('follows from a report on what is wanted now alone: %s', (_name, given) => {
    const it = world(given);
    const before = it.deployment.observed;
    expect(advance(it).phase).not.toBe(before?.phase);
    // the same reports, when something else has been wanted since
    const later = <K extends 'assignment'>(one: ReadonlyResource<K>) => ({
      ...one,
      meta: { ...one.meta, generation: one.meta.generation + 1 },
    });
    const build = it.build && later(it.build);
    const outdated = { ...it, slots: it.slots.map(later), build };
    expect(advance(outdated)).toEqual(before);
  });

  it('says at its deadline what the instance says now, not what it said of what was wanted before', () => {
    const given = world({ observed: deploying, slots: [{ error: { code: 'unhealthy', message: '500' } }] });
    const [slot] = given.slots;
    const restarted = { ...slot!, meta: { ...slot!.meta, generation: 2 } };
    expect(advance({ ...given, slots: [restarted], expired: true }).error?.code).toBe('not_ready');
  });

  it('says at its deadline what its agent sees of the instance, the port before the check', () => {
    const notes = [
      { type: 'HealthCheck', reason: 'Failing', message: 'GET / answered 400' },
      { type: 'Unreachable', reason: 'Loopback', message: 'It listens on 127.0.0.1:80' },
    ];
    for (const over of [{ expired: true }, { isUnhealthy: true }]) {
      const given = (seen: typeof notes) => world({ observed: deploying, slots: [{ notes: seen }], ...over });
      expect(advance(given(notes)).error).toEqual({ code: 'unhealthy', message: 'It listens on 127.0.0.1:80' });
      expect(advance(given(notes.slice(0, 1))).error?.message).toBe('GET / answered 400');
      expect(advance(given([])).error?.code).toBe('not_ready');
    }
  });

  it('succeeds with an instance that has come to an end that is a success, and fails with one that failed', () => {
    const done = world({ observed: deploying, slots: [{ phase: 'succeeded', exit_code: 0 }] });
    expect(advance(done).phase).toBe('succeeded');
    const error = { code: 'exited', message: 'The process exited with code 7: no queue' };
    const failed = world({ observed: deploying, slots: [{ phase: 'failed', exit_code: 7, error }] });
    expect(advance(failed)).toMatchObject({ phase: 'failed', error });
  });

  it('pins the image that the first instance resolved', () => {
    const it = advance(world({ observed: deploying, app: { replicas: 2 }, slots: [{ image_digest: 'sha256:9' }] }));
    expect(it.image_digest).toBe('sha256:9');
  });

  it.each([
    ['has the pinned image', 'sha256:9', 'succeeded'],
    ['has what its tag led to later', 'sha256:8', 'deploying'],
    ['has yet to say which image it has', undefined, 'deploying'],
  ])('of two stable instances the last one %s (%s): the deployment is %s', (_what, digest, phase) => {
    const last = digest === undefined ? stable : { ...stable, image_digest: digest };
    const slots = [{ ...stable, image_digest: 'sha256:9' }, last];
    expect(advance(world({ observed: deploying, app: { replicas: 2 }, slots })).phase).toBe(phase);
  });

  it('does not wait for the image of a process that has come to its end', () => {
    const slots = [
      { ...stable, image_digest: 'sha256:9' },
      { ...stable, phase: 'succeeded' as const },
    ];
    expect(advance(world({ observed: deploying, app: { replicas: 2 }, slots })).phase).toBe('succeeded');
  });
});

describe('the plan of a deployment', () => {
  it('builds while queued or building, and clears the build away afterwards', () => {
    const queued = world({ source: git });
    expect(plan(queued, advance(queued), 60_000)).toMatchObject([
      { do: 'ensure', desired: { spec: { type: 'build', branch: 'main', attempt: 1 } } },
    ]);
    const built = world({
      source: git,
      observed: { phase: 'building' },
      build: { phase: 'succeeded', image_digest: 'sha256:1' },
    });
    // until its image is stored, the server knows of nothing else that needs it
    expect(plan(built, advance(built), 60_000)).toEqual([]);
    const stored = world({ source: git, observed: { phase: 'deploying' }, build: { phase: 'succeeded' } });
    expect(plan(stored, advance(stored), 60_000)).toMatchObject([{ do: 'retire' }]);
  });

  it('tries a lost build again, three times at most', () => {
    const lost = world({ source: git, observed: { phase: 'building' }, build: { phase: 'lost' } });
    expect(plan(lost, advance(lost), 60_000)).toMatchObject([
      { do: 'ensure', desired: { spec: { type: 'build', attempt: 2 } } },
    ]);
  });

  it('names how often a build was lost', () => {
    const lost = world({ source: git, observed: { phase: 'building' }, build: { phase: 'lost' }, attempt: 3 });
    const message = 'The server lost the build 3 times: see the log of its agent, then deploy again';
    expect(advance(lost).error).toEqual({ code: 'build_lost', message });
  });

  it('gives the last attempt its chance when the report on the one before is still there', () => {
    const { build } = world({ source: git, build: { phase: 'lost' }, attempt: 3 });
    expect(taskState('build', build)).toMatchObject({ outcome: 'lost', isExhausted: true, attempt: 3 });
    const begun = { ...build!, meta: { ...build!.meta, generation: 3 } };
    expect(taskState('build', begun)).toMatchObject({ outcome: 'running', isExhausted: false, attempt: 3 });
  });

  it('never builds for an image or for what was built already', () => {
    for (const given of [{}, { source: git, deployment: { reuse: { image: 'x', image_digest: 'sha256:1' } } }]) {
      const it = world(given);
      expect(plan(it, advance(it), 60_000)).toEqual([]);
    }
  });
});

describe('a deadline that passes while the server is away', () => {
  it.each<[string, Given, string]>([
    ['of a queue', { source: git, observed: { phase: 'queued' } }, 'server_offline'],
    [
      'of a queue, by its engine',
      { source: git, observed: { phase: 'queued' }, serverAway: 'engine' },
      'engine_unavailable',
    ],
    ['of a build', { observed: { phase: 'building' }, build: {}, serverAway: 'engine' }, 'engine_unavailable'],
    [
      'of a build, by its agent',
      { observed: { phase: 'building' }, build: {}, serverAway: 'offline' },
      'server_offline',
    ],
    [
      'of a rollout, whatever its instances said before',
      {
        observed: { phase: 'deploying' },
        slots: [{ error: { code: 'unhealthy', message: '500' } }],
        serverAway: 'engine',
      },
      'engine_unavailable',
    ],
  ])('%s is explained by that', (_what, given, code) => {
    expect(advance(world({ ...given, expired: true }))).toMatchObject({ phase: 'failed', error: { code } });
  });
});
