import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { endpoints } from '../../api/routes/endpoints.ts';
import { routeName } from '../../api/endpoint/endpoint.ts';
import { permissions } from '../../api/rights/permissions.ts';
import { resourceOf } from '../../api/resources/resources.ts';
import { applicationVerbs } from '../../rules/application.ts';
import { databaseVerbs } from '../../rules/database.ts';
import { deploymentVerbs } from '../../rules/deployment.ts';
import { environmentVerbs } from '../../rules/environment.ts';
import { projectVerbs } from '../../rules/project.ts';
import { serverVerbs } from '../../rules/server.ts';
import { cellOf, whyNot } from '../../rules/verb-table.ts';
import type { Shown, VerbTable } from '../../rules/verb-table.ts';
import { ApplicationPhase, DeploymentPhase, RunState } from '../../store/kinds/application.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { ServerPhase } from '../../store/kinds/server.ts';
import { openRepository } from '../../store/repo.ts';
import type { Resource } from '../../store/resource.ts';
import { commit } from '../../store/unit.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';
import { ask, setStage } from '../harness/stage.ts';
import type { Stage } from '../harness/stage.ts';
import { databaseOf, exampleOf } from './examples.ts';

/** Every cell of the tables in `rules/` against the handlers: what the console offers is what the API accepts. */
let world: ApiWorld;
const unlimited = { perMinute: 0, burst: 1 };

beforeAll(async () => {
  world = await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited, codeRateLimit: unlimited } });
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

type Kind = 'project' | 'environment' | 'server' | 'application' | 'database' | 'deployment';

interface Situation<K extends Kind> {
  desired?: (draft: DesiredOf<K>, stage: Stage) => void;
  phase?: string;
  /** Of its condition `Ready`. */
  reason?: string;
  isDeleting?: true;
}

interface Walked<K extends Kind, S extends string> {
  table: VerbTable<S>;
  /** The object that is put into the state. */
  id: (stage: Stage, state: S) => string;
  states: Record<S, Situation<K>>;
  query?: string;
}

function walked<K extends Kind, S extends string>(kind: K, how: Walked<K, S>): [K, Walked<K, string>] {
  return [kind, how as unknown as Walked<K, string>]; // its states are the keys of both of its tables
}

const toRun = ({ deployments }: Stage) => ({ run: 'running', deployment_id: deployments.current }) as const;
const application = (phase: string, isStopped = false): Situation<'application'> => ({
  desired: (draft, stage) => void Object.assign(draft, toRun(stage), isStopped && { run: 'stopped' }),
  phase,
});

const kinds = [
  walked('application', {
    table: applicationVerbs,
    id: (stage) => stage.application,
    states: {
      running: application('running'),
      deploying: { desired: (draft, { deployments }) => void (draft.deployment_id = deployments.queued) },
      failed: application('failed'),
      error: application('error'),
      cancelled: application('stopped'),
      ended: { ...application('stopped'), reason: 'Completed' },
      stopping: application('running', true),
      stopped: application('stopped', true),
      deleting: { isDeleting: true },
    },
  }),
  walked('database', {
    table: databaseVerbs,
    id: databaseOf,
    states: {
      running: { phase: 'running' },
      provisioning: { phase: 'provisioning' },
      error: { phase: 'error' },
      stopping: { desired: (draft) => void (draft.run = 'stopped'), phase: 'running' },
      stopped: { desired: (draft) => void (draft.run = 'stopped'), phase: 'stopped' },
      deleting: { isDeleting: true },
    },
  }),
  walked('deployment', {
    table: deploymentVerbs,
    id: ({ deployments }) => deployments.queued,
    states: {
      queued: { phase: 'queued' },
      building: { phase: 'building' },
      deploying: { phase: 'deploying' },
      succeeded: { phase: 'succeeded' },
      failed: { phase: 'failed' },
      cancelled: { phase: 'cancelled' },
      superseded: { phase: 'superseded' },
    },
  }),
  walked('environment', {
    table: environmentVerbs,
    id: (stage, state) => (state === 'default' ? stage.environment : stage.emptyEnvironment),
    states: {
      active: {},
      default: {},
      cloning: {
        desired: (draft, { environment }) =>
          void (draft.clone_of = { environment_id: environment, server_map: {}, complete: false }),
      },
      deleting: { isDeleting: true },
    },
  }),
  walked('project', {
    table: projectVerbs,
    id: ({ project }) => project,
    states: { active: {}, deleting: { isDeleting: true } },
  }),
  walked('server', {
    table: serverVerbs,
    id: ({ server }) => server,
    states: {
      active: { phase: 'active' },
      provisioning: { phase: 'provisioning' },
      error: { phase: 'error' },
      offline: { phase: 'offline' },
      deleting: { isDeleting: true },
    },
    query: '?force=true',
  }),
] as const;

async function bring<K extends Kind>(stage: Stage, kind: K, id: string, situation: Situation<K>) {
  const { desired, phase, reason, isDeleting } = situation;
  const repo = openRepository(world.store, stage.tenant, world.clock);
  if (desired !== undefined) await repo.change(kind, id, (draft) => desired(draft, stage));
  const it = (await repo.get(kind, id)) as unknown as Resource<Kind>; // of one of the kinds
  const unit = repo.begin();
  const at = { observedGeneration: it.meta.generation, changedAt: '' };
  const conditions = reason === undefined ? [] : [{ type: 'Ready', status: 'false', reason, message: '', ...at }];
  if (phase !== undefined)
    unit.observe(it as never, { ...it.observed, phase, observedGeneration: it.meta.generation, conditions } as never);
  if (isDeleting === true) unit.requestDelete(it);
  await commit(unit);
  await world.settled();
}

/** The object as a client sees it. */
function shown(stage: Stage, kind: Kind, id: string): Shown {
  const view = world.mirror.tenant(stage.tenant);
  return resourceOf(kind).answerOf(view.get(kind, id)!, view) as Shown;
}

/** What is desired of an object; that an instance restarts is no other desired state. */
const desires = ({ run, replicas, deployment_id, is_default }: Shown) => ({ run, replicas, deployment_id, is_default });

const cells = kinds.flatMap(([kind, how]) =>
  Object.keys(how.table.verbs).flatMap((verb) => how.table.states.map((state) => [kind, verb, state, how] as const)),
);

it.each(cells)('%s: %s while %s', async (kind, verb, state, how) => {
  const { table, query = '' } = how;
  const { route } = table.verbs[verb]!;
  const stage = await setStage(world, permissions.get(route)?.grants.owner === '-' ? 'superadmin' : 'owner');
  const endpoint = endpoints.find((one) => routeName(one) === route)!;
  const example = exampleOf(endpoint);
  await example.before?.(stage);
  const id = how.id(stage, state);
  await bring(stage, kind, id, how.states[state] as Situation<typeof kind>);
  const before = shown(stage, kind, id);
  expect(table.stateOf(before), 'The stage is in the state').toBe(state);
  const path = endpoint.path.replace(/:(?!projectId)\w+/, id).replace(':projectId', stage.project);
  const method = endpoint.method;
  const body = example.body?.(stage);
  const answer = await ask(
    world,
    { method, path: `${path}${method === 'DELETE' ? query : ''}`, ...(body !== undefined && { body }) },
    stage.actor.by.token,
  );

  const cell = cellOf(table, verb, before)!;
  if (cell !== 'yes' && 'no' in cell) {
    expect([answer.status, answer.body.error?.message]).toEqual([409, cell.no]);
    return;
  }
  // an example can be refused for another reason than a state, such as the source of the application
  expect([200, 201, 204, example.status], JSON.stringify(answer.body)).toContain(answer.status);
  await world.settled();
  if (cell !== 'yes') expect(desires(shown(stage, kind, id))).toEqual(desires(before));
});

describe('the state', () => {
  it.each([...ApplicationPhase.options].flatMap((status) => RunState.options.map((run) => [status, run] as const)))(
    'of an application that is %s and shall be %s is known',
    (status, run) => {
      expect(applicationVerbs.stateOf({ status, run })).toBeDefined();
    },
  );

  it('of everything else is known by its status', () => {
    for (const status of DeploymentPhase.options) expect(deploymentVerbs.stateOf({ status })).toBe(status);
    for (const status of [...ServerPhase.options, 'deleting']) expect(serverVerbs.stateOf({ status })).toBe(status);
  });

  it('that this release does not know is not judged', () => {
    expect(cellOf(serverVerbs, 'ping', { status: 'resting' })).toBeUndefined();
    expect(cellOf(applicationVerbs, 'restart', { status: 'resting', run: 'running' })).toBeUndefined();
  });
});

it('the console offers what the API accepts, also while a stop is under way', async () => {
  const stage = await setStage(world, 'owner');
  await bring(stage, 'application', stage.application, application('running', true));
  const seen = shown(stage, 'application', stage.application);
  expect(seen).toMatchObject({ status: 'running', run: 'stopped' });
  const why = (verb: keyof typeof applicationVerbs.verbs) => whyNot(applicationVerbs, verb, seen);
  expect(why('restart')).toBe('Cannot restart as the application is stopped: start it');
  expect(why('stop')).toBe('The application is being stopped');
  expect(why('start')).toBeUndefined();
});

it.each(['Completed', 'Exited'])(
  'an application that has ended as %s runs once more when it is started',
  async (reason) => {
    const stage = await setStage(world, 'owner');
    const phase = reason === 'Completed' ? 'stopped' : 'failed';
    await bring(stage, 'application', stage.application, { ...application(phase), reason });
    const tokenOf = () =>
      world.mirror.tenant(stage.tenant).get('application', stage.application)?.desired.restart_token;
    const start = () =>
      ask(world, { method: 'POST', path: `/applications/${stage.application}/start` }, stage.actor.by.token);
    const before = tokenOf();
    expect((await start()).status).toBe(200);
    await world.settled();
    const after = tokenOf();
    expect(after).not.toBe(before);
    // the second request finds that it is to run already
    expect((await start()).status).toBe(200);
    await world.settled();
    expect(tokenOf()).toBe(after);
  },
);
