import { assignmentId } from '../../../store/kinds/assignment-id.ts';
import { applicationController } from '../../../controllers/application/reconcile.ts';
import { deploymentController } from '../../../controllers/deployment/reconcile.ts';
import { kinds, type ObservedOf } from '../../../store/kinds/kinds.ts';
import { commit } from '../../../store/unit.ts';
import { aDeployment, anApplication, aServer } from '../../harness/objects.ts';
import { desiredState } from '../../harness/states.ts';
import { tenant, type Rig } from '../runtime/rig.ts';

export const unreadyGraceMs = 30_000;
export const startDeadlineMs = 600_000;
export const controllers = [
  applicationController({ unreadyGraceMs, startDeadlineMs }),
  deploymentController({ queueDeadlineMs: 600_000, buildDeadlineMs: 600_000, rolloutDeadlineMs: 600_000 }),
];

/** An application of so many instances on its server, and what its agent reports of them. */
export async function deployed(rig: Rig, replicas = 1) {
  const server = aServer();
  const app = anApplication({ server_id: server.meta.id, replicas });
  const deployment = aDeployment(app);
  const made = rig.repo.begin();
  made.create('server', server.meta.id, server.desired);
  made.create(
    'application',
    app.meta.id,
    desiredState('application', { ...app.desired, deployment_id: deployment.meta.id }),
  );
  made.create('deployment', deployment.meta.id, deployment.desired);
  await commit(made);
  await rig.rest();
  const view = rig.mirror.tenant(tenant);
  const instance = assignmentId.slot(deployment.meta.id, 0);
  return {
    app: app.meta.id,
    server: server.meta.id,
    deployment: deployment.meta.id,
    instance,
    phase: () => view.get('application', app.meta.id)?.observed?.phase,
    report: async (observed: Partial<ObservedOf<'assignment'>>, slot = 0): Promise<void> => {
      const it = await rig.repo.get('assignment', assignmentId.slot(deployment.meta.id, slot));
      if (it === undefined) throw new Error(`The application has no instance ${slot}`);
      const full = kinds.assignment.observed.parse({ phase: 'running', ...observed });
      await rig.repo.observe(it, { ...full, observedGeneration: it.meta.generation, conditions: [] }, []);
      await rig.rest();
    },
  };
}
