import { describe, expect, it } from 'vitest';
import { assignmentId } from '../../../store/kinds/assignment-id.ts';
import { alarmOf } from '../../../controllers/application/alarm.ts';
import { conditionsOf, isUnready, observe, stateOf } from '../../../controllers/application/states.ts';
import type { World } from '../../../controllers/application/world.ts';
import type { ObservedOf } from '../../../store/kinds/kinds.ts';
import { aDeployment, anApplication, aServer, object } from '../../harness/objects.ts';
import type { Resource } from '../../../store/resource.ts';
import { desiredState } from '../../harness/states.ts';
import { serviceSpec } from '../../harness/wire-items.ts';

type Report = Partial<ObservedOf<'assignment'>>;
type DeploymentPhase = ObservedOf<'deployment'>['phase'];

interface Given {
  run?: 'running' | 'stopped';
  replicas?: number;
  before?: ObservedOf<'application'>['phase'];
  /** Phases of the deployments, oldest first; the last one is the target. */
  deployments?: DeploymentPhase[];
  /** What the instances of the newest success report. */
  slots?: Report[];
  server?: 'active' | 'provisioning' | 'offline' | 'error' | 'gone';
  deleting?: boolean;
  unreadyTooLong?: boolean;
  failures?: number;
  counted?: boolean;
  /** A volume that the application mounts. */
  mounted?: Resource<'volume'>;
  restartPolicy?: 'always' | 'on-failure' | 'no';
  /** Why the deployments that failed did. */
  failure?: { code: string; message: string };
}

function world(given: Given): World {
  const phases = given.deployments ?? [];
  const base = anApplication({ run: given.run ?? 'running', replicas: given.replicas ?? 1 });
  const deployments = phases.map((phase, index) =>
    aDeployment(
      base,
      { number: index + 1 },
      { phase, ...(phase === 'failed' ? { error: given.failure ?? { code: 'x', message: 'It broke' } } : {}) },
    ),
  );
  const target = deployments.at(-1);
  const serving = deployments.findLast((it) => it.observed?.phase === 'succeeded');
  const observed =
    given.before === undefined
      ? undefined
      : {
          phase: given.before,
          consecutive_failures: given.failures ?? 0,
          ready_replicas: 0,
          crash_loop_counted: false,
          ...(given.counted === true && target !== undefined ? { counted_deployment_id: target.meta.id } : {}),
        };
  const app = anApplication(
    { ...base.desired, ...(target === undefined ? {} : { deployment_id: target.meta.id }) },
    { id: base.meta.id, deleting: given.deleting ?? false, ...(observed === undefined ? {} : { observed }) },
  );
  const owner = serving ?? target;
  const slots = (given.slots ?? []).map((report, slot) =>
    object(
      'assignment',
      {
        server_id: app.desired.server_id,
        project_id: app.desired.project_id,
        environment_id: app.desired.environment_id,
        workload_kind: 'application',
        workload_id: app.meta.id,
        workload_name: 'web',
        service: 'main',
        version: owner!.meta.id,
        run: given.run ?? 'running',
        spec: serviceSpec({ slot, restart_policy: given.restartPolicy ?? 'always' }),
        spec_hash: 'h',
      },
      {
        id: assignmentId.slot(owner!.meta.id, slot),
        observed: { phase: 'running', ready: false, stable: false, restarts: 0, crash_loop: false, ...report },
      },
    ),
  );
  return {
    app,
    target,
    serving,
    slots,
    volumes: [],
    server:
      given.server === 'gone'
        ? undefined
        : { ...aServer(), observed: { ...aServer().observed!, phase: given.server ?? 'active' } },
    unreadyTooLong: given.unreadyTooLong ?? false,
    mounted: given.mounted === undefined ? [] : [given.mounted],
  };
}

const up = { ready: true, stable: true };
const completed: Report = { phase: 'succeeded', exit_code: 0, last_exit: { code: 0 } };
const exited: Report = {
  phase: 'failed',
  exit_code: 7,
  last_exit: { code: 7, lines: 'no queue' },
  error: { code: 'exited', message: 'The process exited with code 7: no queue' },
};

describe('the phase of an application', () => {
  const table: [string, Given, string, string][] = [
    ['never deployed', { run: 'stopped' }, 'stopped', 'NeverDeployed'],
    ['queued', { deployments: ['queued'] }, 'deploying', 'Queued'],
    ['building', { deployments: ['building'] }, 'deploying', 'Building'],
    [
      'rolling out while the older serves',
      { deployments: ['succeeded', 'deploying'], slots: [up] },
      'deploying',
      'RollingOut',
    ],
    ['all ready', { deployments: ['succeeded'], slots: [up] }, 'running', 'Running'],
    ['some ready', { replicas: 2, deployments: ['succeeded'], slots: [up, {}] }, 'running', 'Degraded'],
    ['failed with nothing before', { deployments: ['failed'] }, 'failed', 'DeploymentFailed'],
    [
      'failed while the older serves',
      { deployments: ['succeeded', 'failed'], slots: [up] },
      'running',
      'RolloutFailed',
    ],
    ['cancelled with nothing before', { deployments: ['cancelled'] }, 'stopped', 'DeploymentCancelled'],
    ['a hiccup', { before: 'running', deployments: ['succeeded'], slots: [{}] }, 'running', 'NoReadyInstance'],
    [
      'not ready for too long',
      { before: 'running', deployments: ['succeeded'], slots: [{}], unreadyTooLong: true },
      'error',
      'NoReadyInstance',
    ],
    [
      'still in error until ready',
      { before: 'error', deployments: ['succeeded'], slots: [{}] },
      'error',
      'NoReadyInstance',
    ],
    [
      'served by the instance that covers the one that gets a new container',
      { before: 'running', deployments: ['succeeded'], slots: [{}, up] },
      'running',
      'Covered',
    ],
    [
      'covered by one that is not ready itself',
      { before: 'running', deployments: ['succeeded'], slots: [{}, {}] },
      'running',
      'NoReadyInstance',
    ],
    [
      'covered after a deployment that failed',
      { before: 'running', deployments: ['succeeded', 'failed'], slots: [{}, up] },
      'running',
      'RolloutFailed',
    ],
    [
      'covered while the process of the new container keeps exiting',
      { before: 'running', deployments: ['succeeded'], slots: [{ crash_loop: true }, up] },
      'running',
      'CrashLoop',
    ],
    [
      'covered while the new container cannot be made',
      {
        before: 'running',
        deployments: ['succeeded'],
        slots: [{ phase: 'failed', error: { code: 'data_lost', message: 'Volume v does not exist' } }, up],
      },
      'running',
      'Degraded',
    ],
    [
      'covered while the process of the new container has failed for good',
      { before: 'running', deployments: ['succeeded'], restartPolicy: 'no', slots: [exited, up] },
      'running',
      'Degraded',
    ],
    [
      'covered in part',
      { before: 'running', replicas: 3, deployments: ['succeeded'], slots: [up, {}, {}, up] },
      'running',
      'Degraded',
    ],
    ['back from error', { before: 'error', deployments: ['succeeded'], slots: [up] }, 'running', 'Running'],
    ['started again', { before: 'stopped', deployments: ['succeeded'], slots: [{}] }, 'deploying', 'Starting'],
    [
      'crash loop',
      { before: 'running', deployments: ['succeeded'], slots: [{ crash_loop: true }] },
      'error',
      'CrashLoop',
    ],
    [
      'a crash loop that is ready for a moment',
      { before: 'running', deployments: ['succeeded'], slots: [{ ...up, crash_loop: true }] },
      'running',
      'CrashLoop',
    ],
    [
      'a crash loop of one of two',
      { before: 'running', replicas: 2, deployments: ['succeeded'], slots: [up, { crash_loop: true }] },
      'running',
      'Degraded',
    ],
    [
      'server offline',
      { before: 'running', deployments: ['succeeded'], slots: [up], server: 'offline' },
      'error',
      'ServerOffline',
    ],
    [
      'its engine does not answer',
      { before: 'running', deployments: ['succeeded'], slots: [up], server: 'error' },
      'error',
      'EngineNotReady',
    ],
    [
      'stopped while the engine does not answer',
      { run: 'stopped', before: 'running', deployments: ['succeeded'], slots: [up], server: 'error' },
      'error',
      'EngineNotReady',
    ],
    [
      'rolled out and the server is away',
      { deployments: ['deploying'], server: 'offline' },
      'deploying',
      'WaitingForServer',
    ],
    ['built and the engine is away', { deployments: ['building'], server: 'error' }, 'deploying', 'WaitingForServer'],
    [
      'server gone',
      { before: 'running', deployments: ['succeeded'], slots: [up], server: 'gone' },
      'error',
      'ServerGone',
    ],
    [
      'being stopped',
      { run: 'stopped', before: 'running', deployments: ['succeeded'], slots: [{}] },
      'running',
      'Stopping',
    ],
    ['stopped', { run: 'stopped', deployments: ['succeeded'], slots: [{ phase: 'stopped' }] }, 'stopped', 'Stopped'],
    [
      'stopping on an offline server',
      { run: 'stopped', deployments: ['succeeded'], slots: [{}], server: 'offline' },
      'error',
      'ServerOffline',
    ],
    ['deleting', { deployments: ['succeeded'], slots: [up], deleting: true }, 'deleting', 'Deleting'],
  ];

  it.each(table)('%s', (_name, given, phase, reason) => {
    const state = stateOf(world(given));
    expect(state).toMatchObject({ phase, reason });
    if (state.ready === 'true') expect(state.phase).toBe('running');
  });

  it('counts a failed deployment once and forgets failures when all is well', () => {
    const failed = world({ before: 'running', deployments: ['succeeded', 'failed'], slots: [up] });
    expect(observe(failed, stateOf(failed)).consecutive_failures).toBe(1);
    const again = world({
      before: 'running',
      deployments: ['succeeded', 'failed'],
      slots: [up],
      failures: 1,
      counted: true,
    });
    expect(observe(again, stateOf(again)).consecutive_failures).toBe(1);
    const well = world({ before: 'running', deployments: ['succeeded'], slots: [up], failures: 3 });
    expect(observe(well, stateOf(well)).consecutive_failures).toBe(0);
  });

  it('says how what keeps exiting ended last and what it wrote, and does not flip while that is ready at times', () => {
    const last_exit = { code: 7, lines: 'connection lost' };
    const message = 'Its process keeps exiting, last with code 7: connection lost';
    const of = (slot: Report, unreadyTooLong = false): World =>
      world({ before: 'running', deployments: ['succeeded'], slots: [slot], unreadyTooLong });
    const upAgain = of({ ...up, crash_loop: true, last_exit });
    expect(stateOf(upAgain)).toEqual({ phase: 'running', ready: 'false', reason: 'CrashLoop', message });
    const down = (unreadyTooLong: boolean): World => {
      const it = of({ crash_loop: true, last_exit }, unreadyTooLong);
      const { reason, message: text } = stateOf(upAgain);
      const conditions = [
        { type: 'Ready', status: 'false' as const, reason, message: text, observedGeneration: 1, changedAt: '' },
      ];
      return { ...it, app: { ...it.app, observed: { ...it.app.observed!, conditions } } };
    };
    expect(stateOf(down(false))).toEqual(stateOf(upAgain));
    expect(stateOf(down(true))).toEqual({ ...stateOf(upAgain), phase: 'error' });
    const killed = of({ crash_loop: true, last_exit: { code: 137, out_of_memory: true } });
    expect(stateOf(killed).message).toBe(
      'Its process keeps exiting, last with code 137, killed as it used more memory than it may: its log shows why',
    );
  });

  it.each([
    ['a crash loop', { crash_loop: true }, 'CrashLoop'],
    ['readiness', up, 'Running'],
  ])('takes %s for that of the instance as it is wanted now alone', (_name, report, reason) => {
    const it = world({ before: 'running', deployments: ['succeeded'], slots: [report] });
    expect(stateOf(it).reason).toBe(reason);
    const slots = it.slots.map((slot) => ({ ...slot, meta: { ...slot.meta, generation: 2 } }));
    const restarted = { ...it, slots };
    expect(stateOf(restarted).reason).toBe('NoReadyInstance');
    expect(observe(restarted, stateOf(restarted)).consecutive_failures).toBe(0);
  });

  it('says that readiness is unknown, not false, while the server does not answer', () => {
    const it = world({ before: 'running', deployments: ['succeeded'], slots: [up], server: 'offline' });
    const conditions = conditionsOf(it, stateOf(it));
    expect(conditions.find((one) => one.type === 'Ready')?.status).toBe('unknown');
    expect(conditions.find((one) => one.type === 'ServerReachable')?.status).toBe('false');
  });

  it('does not call a server reachable whose agent has not joined yet', () => {
    const it = world({ server: 'provisioning' });
    const condition = conditionsOf(it, stateOf(it)).find((one) => one.type === 'ServerReachable');
    expect(condition).toMatchObject({ status: 'false', reason: 'AwaitingAgent' });
  });

  it('says that the agent is too old while an instance, or its deployment, says so', () => {
    const error = { code: 'agent_outdated', message: 'Upgrade the agent' };
    const of = (given: Given) => {
      const it = world(given);
      return conditionsOf(it, stateOf(it)).find((one) => one.type === 'AgentTooOld');
    };
    const expected = { status: 'true', reason: 'AgentOfEarlierRelease', message: error.message };
    expect(of({ deployments: ['succeeded'], slots: [up, { error }] })).toMatchObject(expected);
    expect(of({ deployments: ['failed'], failure: error })).toMatchObject(expected);
    expect(of({ deployments: ['failed'] })).toBeUndefined();
    expect(of({ deployments: ['succeeded'], slots: [up, { error: { ...error, code: 'exited' } }] })).toBeUndefined();
  });

  it('counts a crash loop once until it was healthy again, however often it flaps', () => {
    const [crashing, unready, healthy] = [{ crash_loop: true }, {}, up].map((slot) =>
      world({ before: 'running', deployments: ['succeeded'], slots: [slot] }),
    );
    const counts: number[] = [];
    let before = crashing!.app.observed!;
    for (const seen of [crashing!, unready!, crashing!, healthy!, crashing!]) {
      const it = { ...seen, app: { ...seen.app, observed: before } };
      before = { ...before, ...observe(it, stateOf(it)) };
      counts.push(before.consecutive_failures);
    }
    expect(counts).toEqual([1, 1, 1, 0, 1]);
  });

  it('runs its unready clock only when something should be ready and is not', () => {
    expect(isUnready(world({ deployments: ['succeeded'], slots: [{}] }))).toBe(true);
    expect(isUnready(world({ deployments: ['succeeded'], slots: [up] }))).toBe(false);
    expect(isUnready(world({ deployments: ['succeeded', 'building'], slots: [{}] }))).toBe(false);
    expect(isUnready(world({ run: 'stopped', deployments: ['succeeded'], slots: [{}] }))).toBe(false);
  });
});

describe('an application of which an instance gets a new container while another one covers it', () => {
  const covered = (more: Given = {}): World =>
    world({ before: 'running', deployments: ['succeeded'], slots: [{}, up], ...more });

  it('is ready, and says so', () => {
    const message = '1 of 1 instances are not ready yet, and others serve in their place';
    expect(stateOf(covered())).toEqual({ phase: 'running', ready: 'true', reason: 'Covered', message });
    expect(stateOf(covered({ replicas: 2, slots: [up, {}, up] })).message).toBe(message.replace('1 of 1', '1 of 2'));
    expect(observe(covered(), stateOf(covered())).ready_replicas).toBe(1);
    expect(alarmOf(covered(), stateOf(covered()))).toEqual({ notified: [] });
  });

  it('has no unready clock as long as the other one is ready', () => {
    expect(isUnready(covered())).toBe(false);
    expect(isUnready(covered({ slots: [{}, {}] }))).toBe(true);
    expect(stateOf(covered({ unreadyTooLong: true }))).toMatchObject({ phase: 'running', ready: 'true' });
  });

  it('counts those that serve in their place among the ready ones', () => {
    const it = covered({ replicas: 3, slots: [up, {}, {}, up] });
    expect(stateOf(it)).toMatchObject({ ready: 'false', message: '2 of 3 instances are ready' });
  });

  it('is not covered by an instance of another revision', () => {
    const it = covered();
    const [own, cover] = it.slots;
    const other = { ...cover!, desired: { ...cover!.desired, version: own!.meta.id } };
    expect(stateOf({ ...it, slots: [own!, other] }).reason).toBe('NoReadyInstance');
    expect(isUnready({ ...it, slots: [own!, other] })).toBe(true);
  });

  it('forgets no failure, and does not say that a crash loop is over, before its own instances are ready', () => {
    const it = covered({ failures: 2 });
    expect(observe(it, stateOf(it)).consecutive_failures).toBe(2);
    const app = { ...it.app, observed: { ...it.app.observed!, notified: ['crash_loop' as const] } };
    expect(alarmOf({ ...it, app }, stateOf(it))).toEqual({ notified: ['crash_loop'] });
  });
});

describe('an application whose processes are not started again', () => {
  const of = (slots: Report[], more: Given = {}): World =>
    world({
      before: 'running',
      deployments: ['succeeded'],
      replicas: slots.length,
      restartPolicy: 'no',
      slots,
      ...more,
    });
  const end = (code: number, policy = 'never') =>
    `Its process ended with code ${code}, after which restart_policy ${policy} does not start it again`;

  it('has completed once all of them have come to an end that is a success, and is no trouble', () => {
    const it = of([completed, completed], { unreadyTooLong: true });
    expect(stateOf(it)).toEqual({ phase: 'stopped', ready: 'false', reason: 'Completed', message: end(0) });
    expect(stateOf(of([completed], { restartPolicy: 'on-failure' })).message).toBe(end(0, 'on-failure'));
    expect(isUnready(it)).toBe(false);
    expect(observe(it, stateOf(it)).consecutive_failures).toBe(0);
    expect(alarmOf(it, stateOf(it))).toEqual({ notified: [] });
  });

  it('runs while one of them does', () => {
    expect(stateOf(of([completed, up]))).toMatchObject({ phase: 'running', reason: 'Running' });
    expect(stateOf(of([completed, {}])).phase).not.toBe('stopped');
  });

  it('has failed with the code and the last lines where one of them did', () => {
    const it = of([completed, exited], { unreadyTooLong: true });
    const message = `${end(7)}: no queue`;
    expect(stateOf(it)).toEqual({ phase: 'failed', ready: 'false', reason: 'Exited', message });
    expect(isUnready(of([exited]))).toBe(false);
    const title = 'web ended with a failure';
    expect(alarmOf(it, stateOf(it)).notification).toMatchObject({ severity: 'error', title, message });
  });

  it('is not taken for one that failed where its container could not be made', () => {
    const unmade: Report = { phase: 'failed', error: { code: 'create_failed', message: 'It broke' } };
    expect(stateOf(of([unmade]))).toMatchObject({ reason: 'NoReadyInstance' });
  });
});

it('is warned of what its agent notes, but a worker of no port', () => {
  const notes = ['PortNotSet', 'DataNotKept'].map((type) => ({ type, reason: 'Seen', message: 'As its image says' }));
  const typesOf = (appType: 'web' | 'worker'): string[] => {
    const it = world({ deployments: ['succeeded'], slots: [{ ...up, notes }] });
    const app = { ...it.app, desired: { ...it.app.desired, app_type: appType } };
    const all = conditionsOf({ ...it, app }, stateOf(it)).map(({ type }) => type);
    return all.filter((type) => notes.some((note) => note.type === type));
  };
  expect(typesOf('web')).toEqual(['PortNotSet', 'DataNotKept']);
  expect(typesOf('worker')).toEqual(['DataNotKept']);
});

describe('a rollout', () => {
  it('says what its instances are waited for, and names the port before the check', () => {
    const check = { type: 'HealthCheck', reason: 'Failing', message: 'GET / answered 400' };
    const port = { type: 'Unreachable', reason: 'Loopback', message: 'It listens on 127.0.0.1:80' };
    const of = (...notes: NonNullable<Report['notes']>): string =>
      stateOf(world({ deployments: ['deploying'], slots: [{ notes }] })).message;
    expect(of()).toBe('Deployment 1 is being rolled out');
    expect(of(check)).toBe('Deployment 1 is being rolled out: GET / answered 400');
    expect(of(check, port)).toBe('Deployment 1 is being rolled out: It listens on 127.0.0.1:80');
    const memory = { type: 'MemoryKills', reason: 'OutOfMemory', message: 'Killed' };
    expect(of(memory)).toBe('Deployment 1 is being rolled out');
    const ready = world({ deployments: ['deploying'], slots: [{ ...up, notes: [check] }] });
    expect(stateOf(ready).message).toBe('Deployment 1 is being rolled out');
  });
});

describe('the instances that are ready', () => {
  const readyOf = ({ slots, ...it }: World, change: (slot: World['slots'][number]) => World['slots'][number]) => {
    const changed = { ...it, slots: slots.map(change) };
    const available = conditionsOf(changed, stateOf(changed)).find(({ type }) => type === 'Available');
    return [observe(changed, stateOf(changed)).ready_replicas, available?.status];
  };
  const twoReady = (): World => world({ replicas: 2, deployments: ['succeeded'], slots: [up, up] });

  it('are those of the last reports, also while the agent has not received what was changed of them', () => {
    const later = (slot: World['slots'][number]) => ({
      ...slot,
      meta: { ...slot.meta, generation: slot.meta.generation + 1 },
    });
    expect(readyOf(twoReady(), later)).toEqual([2, 'true']);
    expect(stateOf({ ...twoReady(), slots: twoReady().slots.map(later) }).ready).not.toBe('true');
  });

  it('are none that are to stop', () => {
    expect(readyOf(twoReady(), (slot) => ({ ...slot, desired: { ...slot.desired, run: 'stopped' } }))).toEqual([
      0,
      'false',
    ]);
  });
});

describe('an instance that cannot be made', () => {
  const gone = 'Image example/app:1 (sha256:aa) is not on this server any more, and it can only be built again';
  const lost: Report = { phase: 'failed', error: { code: 'image_not_found', message: gone } };
  const messageOf = (given: Given): string | undefined => {
    const it = world({ deployments: ['succeeded'], ...given });
    return conditionsOf(it, stateOf(it)).find(({ type }) => type === 'Ready')?.message;
  };

  it.each([
    ['while it is a hiccup', { before: 'running', slots: [lost] }, 'No instance is ready at the moment'],
    [
      'when it is none any more',
      { before: 'running', slots: [lost], unreadyTooLong: true },
      'No instance has become ready',
    ],
    ['and as long as it lasts', { before: 'error', slots: [lost] }, 'No instance has become ready'],
    ['while others serve', { replicas: 2, slots: [{ ready: true }, lost] }, '1 of 2 instances are ready'],
  ] as const)('is shown with its cause and the remedy, %s', (_, given, what) => {
    expect(messageOf({ ...given, slots: [...given.slots] })).toBe(`${what}: ${gone} (deploy the application again)`);
  });

  it('is shown with what an administrator can do where its image is not allowed', () => {
    const message =
      'Images of registry registry.test are not allowed here: an administrator can allow it in the settings';
    const refused: Report = { phase: 'failed', error: { code: 'image_not_allowed', message } };
    expect(messageOf({ before: 'running', slots: [refused] })).toBe(
      `No instance is ready at the moment: ${message} (ask an administrator to allow the image, or deploy another one)`,
    );
  });

  it('for the lack of a volume is an error at once, which names the volume and what to do', () => {
    const mounted = object('volume', desiredState('volume', { name: 'notes' }));
    const message = `Cannot create container sp-web: volume sp-vol-${mounted.meta.id} does not exist`;
    const slot: Report = { phase: 'failed', error: { code: 'data_lost', message } };
    for (const before of [undefined, 'running', 'error'] as const) {
      const it = world({ deployments: ['succeeded'], slots: [slot], mounted, ...(before && { before }) });
      expect(stateOf(it)).toMatchObject({
        phase: 'error',
        reason: 'VolumeLost',
        message:
          'No instance can start: Cannot create container sp-web: volume notes does not exist (put it back from a copy, or unbind it and bind another one)',
      });
    }
    const some = world({ replicas: 2, deployments: ['succeeded'], slots: [up, slot], mounted });
    expect(stateOf(some)).toMatchObject({ phase: 'running', reason: 'Degraded' });
    expect(stateOf(some).message).toContain('volume notes does not exist (put it back');
  });

  it('for a volume that is not copied yet says what that waits for, during a deployment and after', () => {
    const copyFrom = { docker_volume: 'blog_data', containers: ['blog-db-1'] };
    const head = { observedGeneration: 1, changedAt: '' };
    const why = { type: 'Ready', status: 'false' as const, reason: 'CopyWaits', message: 'Stop blog-db-1', ...head };
    const volume = object('volume', desiredState('volume', { name: 'rows', copy_from: copyFrom }));
    const mounted = { ...volume, observed: { phase: 'pending' as const, observedGeneration: 1, conditions: [why] } };
    expect(stateOf(world({ deployments: ['deploying'], mounted }))).toMatchObject({
      phase: 'deploying',
      reason: 'WaitingForVolume',
      message: 'Deployment 1 waits for volume rows: Stop blog-db-1',
    });
    expect(stateOf(world({ deployments: ['succeeded'], mounted }))).toMatchObject({
      phase: 'deploying',
      message: 'Instances are starting: volume rows is not there yet. Stop blog-db-1',
    });
  });

  it('is not taken from a process that exits, which may say something else each time', () => {
    const boom: Report = { error: { code: 'exited', message: 'The process exited with code 1: 12:00 boom' } };
    expect(messageOf({ before: 'running', slots: [boom] })).toBe('No instance is ready at the moment');
    expect(messageOf({ before: 'running', slots: [{ ...boom, exit_code: 1 }] })).toBe(
      'No instance is ready at the moment: its process exited with code 1',
    );
    const killed = { error: { code: 'out_of_memory', message: 'The process was killed as it used more memory' } };
    expect(messageOf({ before: 'running', slots: [killed] })).toBe(
      'No instance is ready at the moment: The process was killed as it used more memory',
    );
  });
});
