import { expect, test } from 'vitest';
import { applicationController } from '../../../controllers/application/reconcile.ts';
import { assignmentId } from '../../../store/kinds/assignment-id.ts';
import { Domain } from '../../../store/kinds/domain.ts';
import { kinds, type ObservedOf } from '../../../store/kinds/kinds.ts';
import { ServerIngress } from '../../../store/kinds/server-ingress.ts';
import { commit } from '../../../store/unit.ts';
import { anApplication, aServer } from '../../harness/objects.ts';
import { desiredState } from '../../harness/states.ts';
import { openRig, tenant, type Rig } from '../runtime/rig.ts';

const controllers = [applicationController({ unreadyGraceMs: 30_000, startDeadlineMs: 600_000 })];
const hosts = ['one.test', 'two.test'];

/** An application with domains, and what the agent reports of its routes. */
async function routed(rig: Rig) {
  const server = aServer({ ingress: ServerIngress.parse({ enabled: true }) });
  const app = anApplication({ server_id: server.meta.id, domains: hosts.map((host) => Domain.parse({ host })) });
  const made = rig.repo.begin();
  const email = 'admin@example.org';
  made.create('user', '0b0b0b0b-0000-4000-8000-000000000001', desiredState('user', { email, role: 'admin' }));
  made.create('server', server.meta.id, server.desired);
  made.create('application', app.meta.id, desiredState('application', app.desired));
  await commit(made);
  await rig.rest();
  const routes = assignmentId.task(app.meta.id, 'routes');
  const view = rig.mirror.tenant(tenant);
  return {
    app: app.meta.id,
    routes: () => view.get('assignment', routes),
    condition: () =>
      view.get('application', app.meta.id)?.observed?.conditions.find(({ type }) => type === 'CertificateReady'),
    notifications: () => view.list('notification').map(({ desired }) => desired),
    report: async (observed: Partial<ObservedOf<'assignment'>>): Promise<void> => {
      const it = await rig.repo.get('assignment', routes);
      if (it === undefined) throw new Error('The application has no routes');
      const full = kinds.assignment.observed.parse({ phase: 'running', ready: true, ...observed });
      await rig.repo.observe(it, { ...full, observedGeneration: it.meta.generation, conditions: [] }, []);
      await rig.rest();
    },
  };
}

test('users are notified once of each certificate that ends soon, with the reason', async () => {
  await using rig = await openRig({ controllers });
  const { condition, notifications, report } = await routed(rig);
  const certificate = (host: string, more: object = {}) => ({
    host,
    expires_at: '2030-01-01T00:00:00.000Z',
    issuer: 'it',
    ...more,
  });
  await report({ certificates: hosts.map((host) => certificate(host)) });
  expect(condition()).toMatchObject({ status: 'true', reason: 'Issued' });
  await report({ certificates: hosts.map((host) => certificate(host, { renewal_error: 'HTTP 429' })) });
  expect(condition()).toMatchObject({ status: 'true', reason: 'Issued' });
  expect(condition()?.message).toContain('HTTP 429');
  expect(notifications()).toHaveLength(0);
  const ending = hosts.map((host) => certificate(host, { ends_soon: true, renewal_error: 'HTTP 429' }));
  await report({ certificates: ending });
  await report({ certificates: ending.toReversed() });
  await rig.clock.advance(86_400_000);
  await rig.rest();
  expect(condition()).toMatchObject({ status: 'true', reason: 'ExpiresSoon' });
  expect(condition()?.message).toContain('HTTP 429');
  const sent = notifications().filter(({ type }) => type === 'certificate_ends_soon');
  expect(sent.map(({ title }) => title).toSorted()).toEqual(
    hosts.map((host) => `The certificate for ${host} ends soon`),
  );
  for (const { message } of sent) expect(message).toContain('HTTP 429');
});

test('the routes of a deleted application are stopped before they go, so that its certificates go too', async () => {
  await using rig = await openRig({ controllers });
  const { app, routes, report } = await routed(rig);
  await report({});
  const removed = rig.repo.begin();
  const it = await rig.repo.get('application', app);
  removed.requestDelete(it!);
  await commit(removed);
  await rig.rest();
  expect(routes()?.desired.run).toBe('stopped');
  expect(routes()?.meta.deletionRequestedAt).toBeUndefined();
  await report({ phase: 'stopping', ready: false });
  expect(routes()?.meta.deletionRequestedAt).toBeUndefined();
  await report({ phase: 'stopped', ready: false });
  expect(routes()?.meta.deletionRequestedAt).toBeDefined();
});
