import type { Random } from '../api/ground/random.ts';
import { applicationController } from '../controllers/application/reconcile.ts';
import { deploymentController } from '../controllers/deployment/reconcile.ts';
import { environmentController } from '../controllers/environment/reconcile.ts';
import { inviteController } from '../controllers/invite/reconcile.ts';
import type { InviteSettings } from '../controllers/invite/reconcile.ts';
import { operationController } from '../controllers/operation/reconcile.ts';
import type { Installation, ReachMachines } from '../controllers/operation/run.ts';
import { projectController } from '../controllers/project/reconcile.ts';
import type { AgentCalls } from '../controllers/runtime/agent-calls.ts';
import type { AnyController } from '../controllers/runtime/graph.ts';
import { serverController } from '../controllers/server/reconcile.ts';
import type { ServerSettings } from '../controllers/server/reconcile.ts';
import { volumeController } from '../controllers/volume/reconcile.ts';
import type { Transplanter } from '../store/seal.ts';

export interface ControllerOptions
  extends Pick<InviteSettings, 'mailer' | 'publicUrl'>, Required<Pick<ServerSettings, 'agentRelease'>> {
  keyring: Transplanter;
  random: Pick<Random, 'bytes'>;
  agents: AgentCalls;
  machines: ReachMachines;
  installation: Installation;
  isMailOnlyLogged: boolean;
  buildDeadlineMs: number;
  rolloutDeadlineMs: number;
}

/** The controllers of a control plane, one per kind. */
export function controllersOf(options: ControllerOptions): AnyController[] {
  const { keyring, random, agents, machines, installation, agentRelease } = options;
  const { mailer, isMailOnlyLogged, publicUrl, buildDeadlineMs, rolloutDeadlineMs } = options;
  return [
    projectController,
    environmentController(keyring),
    serverController({ offlineAfterMs: 45_000, agentRelease, agents, publicUrl }),
    applicationController({ unreadyGraceMs: 30_000, startDeadlineMs: rolloutDeadlineMs }),
    deploymentController({ queueDeadlineMs: 24 * 3_600_000, buildDeadlineMs, rolloutDeadlineMs }),
    operationController({ agents, machines, installation }),
    volumeController,
    inviteController({
      mailer,
      isOnlyLogged: isMailOnlyLogged,
      publicUrl,
      bytes: (count) => random.bytes(count),
    }),
  ];
}
