import { expect, it } from 'vitest';
import { alarmOf } from '../../../controllers/application/alarm.ts';
import { plan } from '../../../controllers/application/plan.ts';
import { stateOf } from '../../../controllers/application/states.ts';
import type { World } from '../../../controllers/application/world.ts';
import type { ObservedOf } from '../../../store/kinds/kinds.ts';
import type { StoredComposedService } from '../../../store/kinds/composed-service.ts';
import type { Resource } from '../../../store/resource.ts';
import { composedService } from '../../harness/composed-service.ts';
import { aDeployment, anApplication, aServer, object } from '../../harness/objects.ts';

type Report = Partial<ObservedOf<'assignment'>>;
type Deployment = Resource<'deployment'>;
const earlier = '11111111-1111-4111-8111-111111111111';

const service = (name: string, more: Partial<StoredComposedService> = {}): StoredComposedService =>
  composedService(name, earlier, more);

const ready: Report = { ready: true, stable: true };

/** An application with the services, of which some instances are there as they were reported. */
function town(services: StoredComposedService[], reports: Record<string, Report> = {}) {
  let app = anApplication({ run: 'running' });
  const target: Deployment = aDeployment(app, { services }, { phase: 'deploying' });
  app = { ...app, desired: { ...app.desired, deployment_id: target.meta.id } };
  const world: World = {
    app,
    target,
    serving: undefined,
    slots: [],
    volumes: [],
    server: aServer({ direct_ports_enabled: true }),
    unreadyTooLong: false,
    mounted: [],
  };
  const all = servicesIn({ ...world, slots: [] }, services);
  const slots = Object.entries(reports).map(([name, report]) => {
    const action = all.get(name)!;
    return object('assignment', action.desired, {
      id: action.id,
      observed: { phase: 'running', ready: false, stable: false, restarts: 0, crash_loop: false, ...report },
    });
  });
  return { ...world, slots };
}

/** What is made of each service, if nothing holds it. */
function servicesIn(world: World, services: readonly StoredComposedService[]) {
  const free = services.map((it) => ({ ...it, depends_on: [] }));
  const target = { ...world.target!, desired: { ...world.target!.desired, services: free } };
  return started({ ...world, target });
}

function started(world: World) {
  return new Map(
    plan(world).flatMap((it) =>
      it.do === 'ensure' && it.desired.spec.type === 'service' ? [[it.desired.service, it] as const] : [],
    ),
  );
}

const dependent = [service('db'), service('web', { depends_on: [{ service: 'db', condition: 'service_healthy' }] })];

it('starts a service once those that it depends on are ready', () => {
  expect([...started(town(dependent)).keys()]).toEqual(['db']);
  expect([...started(town(dependent, { db: {} })).keys()]).toEqual(['db']);
  expect([...started(town(dependent, { db: ready })).keys()]).toEqual(['db', 'web']);
});

it('starts a service whose dependency has only to be started once that runs', () => {
  const services = [service('db'), service('web', { depends_on: [{ service: 'db', condition: 'service_started' }] })];
  expect([...started(town(services, { db: { phase: 'preparing' } })).keys()]).toEqual(['db']);
  expect([...started(town(services, { db: { phase: 'starting' } })).keys()]).toEqual(['db', 'web']);
});

it('starts a service that waits for the end of another one after a success, not after a failure', () => {
  const end = 'service_completed_successfully' as const;
  const services = [
    service('setup', { restart_policy: 'no' }),
    service('web', { depends_on: [{ service: 'setup', condition: end }] }),
  ];
  expect([...started(town(services, { setup: ready })).keys()]).toEqual(['setup']);
  expect([...started(town(services, { setup: { phase: 'failed' } })).keys()]).toEqual(['setup']);
  expect([...started(town(services, { setup: { phase: 'succeeded' } })).keys()]).toEqual(['setup', 'web']);
});

it('keeps a service that has begun, whatever becomes of what it depends on', () => {
  expect([...started(town(dependent, { db: {}, web: {} })).keys()]).toEqual(['db', 'web']);
});

it('has volumes of the application, and networks of its own before that of the environment', () => {
  const volume = { type: 'volume', volume: 'data', path: '/data', read_only: false, copy: true } as const;
  const services = [
    service('web', { ports: [{ port: 80, publish: 8080 }], networks: [{ name: 'front', aliases: ['web'] }] }),
    service('db', { mounts: [volume], networks: [{ name: 'back', aliases: ['db', 'database'] }] }),
  ];
  const world = town(services);
  const made = plan(world).flatMap((it) => (it.do === 'ensure' ? it.desired : []));
  const volumes = made.flatMap(({ spec }) => (spec.type === 'volume' ? spec.volume : []));
  const [web, db] = made.flatMap(({ spec }) => (spec.type === 'service' ? spec : []));
  expect(volumes).toHaveLength(1);
  expect(db!.mounts).toEqual([{ ...volume, volume: volumes[0] }]);
  expect(db!.networks).toEqual([{ name: expect.any(String), aliases: ['db', 'database'] }]);
  expect(web!.networks).toHaveLength(2);
  expect(web!.networks[1]!.aliases).toContain(world.app.desired.internal_id);
  expect(web!.networks[0]!.name).not.toBe(db!.networks[0].name);
  expect(web!.ports).toEqual([{ name: 'main', port: 80, publish: 8080 }]);
});

it('gives a process the time to end of its file, or that of the application', () => {
  const world = town([service('web'), service('db', { grace_seconds: 60 })]);
  const app = { ...world.app, desired: { ...world.app.desired, stop_grace_seconds: 25 } };
  const graceOf = (it: World): unknown[] =>
    [...started(it).values()].map(({ desired: { spec } }) => spec.type === 'service' && spec.grace_seconds);
  expect(graceOf({ ...world, app })).toEqual([25, 60]);
  expect(graceOf(world)).toEqual([10, 60]);
});

it('removes the volumes with their data once the application is deleted, and no sooner drops them', () => {
  const world = town([service('web')]);
  const app = { ...world.app, meta: { ...world.app.meta, deletionRequestedAt: 'now' } };
  const volume = object('assignment', {
    ...[...started(world).values()][0]!.desired,
    spec: { type: 'volume', volume: 'sp-vol-x' },
  });
  const removal = (it: Resource<'assignment'>) => plan({ ...world, app, volumes: [it] }).map((one) => one.do);
  expect(removal(volume)).toEqual(['stop']);
  const stopped = object('assignment', { ...volume.desired, run: 'stopped' });
  expect(removal(stopped)).toEqual(['stop']);
  const removed = object(
    'assignment',
    { ...volume.desired, run: 'stopped' },
    { observed: { phase: 'stopped', ready: false, stable: false, restarts: 0, crash_loop: false } },
  );
  expect(removal(removed)).toEqual(['retire']);
});

it('leaves commands that are sealed to the configuration, and has those that an earlier release stored in plain text', () => {
  const sealed = { $sealed: 'k.n.c', for: 'application/x/services.web.words.command' };
  const timing = { interval_seconds: 5, timeout_seconds: 5, failures: 3, start_seconds: 0 };
  const words = (it: StoredComposedService['command']) =>
    service('web', { command: it, entrypoint: it, healthcheck: { ...timing, command: it } });
  const specOf = (it: StoredComposedService) => {
    const { spec, spec_hash } = started(town([it])).get('web')!.desired;
    return spec.type === 'service' ? { spec, spec_hash } : undefined;
  };
  expect(specOf(words(['run', 'it']))!.spec).toMatchObject({
    command: ['run', 'it'],
    entrypoint: ['run', 'it'],
    probe: { command: ['run', 'it'] },
  });
  const { spec } = specOf(words(sealed))!;
  expect(spec).toMatchObject({ probe: { type: 'command', command: ['********'] } });
  expect([spec.command, spec.entrypoint]).toEqual([undefined, undefined]);
  expect(specOf(words(['run', 'it']))!.spec_hash).not.toBe(specOf(words(['run']))!.spec_hash);
});

it('has no check of a service whose file switches it off, neither that of the image nor that of the application', () => {
  const timing = { interval_seconds: 5, timeout_seconds: 5, failures: 3, start_seconds: 0 };
  const plain = town([service('web', { healthcheck: { ...timing, none: true } }), service('worker')]);
  const target = plain.target!;
  const config = { ...target.desired.config, healthcheck_path: '/ready' };
  const world = { ...plain, target: { ...target, desired: { ...target.desired, config } } };
  const specOf = (name: string) => started(world).get(name)!.desired.spec;
  expect(specOf('web')).toMatchObject({ image_check: false });
  expect(specOf('web')).not.toHaveProperty('probe');
  expect(specOf('worker')).toMatchObject({ image_check: true });
});

it('notifies of a service that keeps exiting although requests are answered', () => {
  const looping = { crash_loop: true, last_output: 'no mail server' };
  const { target, ...rest } = town([service('web'), service('mailer')], { web: ready, mailer: looping });
  const serving = target && { ...target, observed: { ...target.observed!, phase: 'succeeded' as const } };
  const world = { ...rest, target: serving, serving };
  expect(alarmOf(world, stateOf(world))).toMatchObject({
    notified: ['crash_loop'],
    notification: {
      type: 'application_error',
      severity: 'warning',
      message: 'An instance of service mailer keeps exiting: 1 of 2 instances are ready\n\nno mail server',
    },
  });
});
