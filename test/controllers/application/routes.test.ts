import { expect, it, test } from 'vitest';
import { planRoutes, routeConditions } from '../../../controllers/application/routes.ts';
import { assignmentId } from '../../../store/kinds/assignment-id.ts';
import { Domain } from '../../../store/kinds/domain.ts';
import { kinds, type ObservedOf } from '../../../store/kinds/kinds.ts';
import { ServerIngress } from '../../../store/kinds/server-ingress.ts';
import { commit } from '../../../store/unit.ts';
import { composedService } from '../../harness/composed-service.ts';
import { aDeployment, anApplication, aServer, object } from '../../harness/objects.ts';
import { desiredState } from '../../harness/states.ts';
import { openRig, tenant } from '../runtime/rig.ts';
import { controllers } from './deployed.ts';

const ready: ObservedOf<'assignment'> = kinds.assignment.observed.parse({
  phase: 'running',
  ready: true,
  stable: true,
});
const ingress = ServerIngress.parse({ enabled: true });

test('the domains lead to the service of the first deployment before that has succeeded', async () => {
  await using rig = await openRig({ controllers });
  const server = aServer({ ingress });
  const app = anApplication({ server_id: server.meta.id, domains: [Domain.parse({ host: 'one.test' })] });
  const earlier = '11111111-1111-4111-8111-111111111111';
  const services = [composedService('front', earlier), composedService('back', earlier)];
  const deployment = aDeployment(app, { services });
  const made = rig.repo.begin();
  made.create('server', server.meta.id, server.desired);
  made.create('application', app.meta.id, desiredState('application', app.desired));
  await commit(made);
  await rig.rest();
  const view = rig.mirror.tenant(tenant);
  const routesId = assignmentId.task(app.meta.id, 'routes');
  const report = async (id: string): Promise<void> => {
    const one = (await rig.repo.get('assignment', id))!;
    await rig.repo.observe(one, { ...ready, observedGeneration: one.meta.generation, conditions: [] }, []);
    await rig.rest();
  };
  const condition = () =>
    view.get('application', app.meta.id)?.observed?.conditions.find(({ type }) => type === 'RoutesReady')?.status;
  await report(routesId);
  expect(condition()).toBe('true');

  const next = rig.repo.begin();
  next.create('deployment', deployment.meta.id, deployment.desired);
  next.change((await rig.repo.get('application', app.meta.id))!, (draft) => {
    draft.deployment_id = deployment.meta.id;
  });
  await commit(next);
  await rig.rest();
  const phase = () => view.get('deployment', deployment.meta.id)?.observed?.phase;
  expect(phase()).toBe('deploying');
  expect(view.get('assignment', routesId)?.desired.spec).toMatchObject({ routes: [{ service: 'front' }] });
  expect(condition()).toBe('false');
  await report(routesId);
  const instances = view
    .by('assignment', 'workload', app.meta.id)
    .filter(({ desired }) => desired.spec.type === 'service');
  for (const { meta } of instances) await report(meta.id);
  expect(phase()).toBe('succeeded');
  expect(condition()).toBe('true');
});

it('says that domains are not ready as long as the server has others', () => {
  const server = aServer({ ingress });
  const before = anApplication({ server_id: server.meta.id, domains: [Domain.parse({ host: 'one.test' })] });
  const world = (app: typeof before, routes?: ReturnType<typeof written>) => ({
    app,
    server,
    service: 'app',
    routes,
  });
  const written = () => {
    const [action] = planRoutes({ app: before, server, service: 'app', routes: undefined });
    if (action?.do !== 'ensure') throw new Error('It has no routes');
    return object('assignment', action.desired, { id: action.id, observed: ready });
  };
  const after = { ...before, desired: { ...before.desired, domains: [Domain.parse({ host: 'two.test' })] } };
  const stands = (app: typeof before) =>
    routeConditions(world(app, written())).map(({ type, status, reason }) => `${type} ${status} ${reason}`);
  expect(stands(before)).toContain('RoutesReady true Loaded');
  expect(stands(after)).toEqual(['RoutesReady false Pending']);
  expect(stands({ ...before, desired: { ...before.desired, domains: [] } })).toEqual([]);
});
