import type { Random } from '../api/ground/random.ts';
import { applicationController } from '../controllers/application/reconcile.ts';
import { databaseController } from '../controllers/database/reconcile.ts';
import type { BackupBucket } from '../controllers/backup/bucket.ts';
import { backupScheduleController } from '../controllers/backup-schedule/reconcile.ts';
import { backupController } from '../controllers/backup/reconcile.ts';
import { backupDestinationController } from '../controllers/backup-destination/reconcile.ts';
import type { DestinationSettings } from '../controllers/backup-destination/reconcile.ts';
import { functionController } from '../controllers/function/reconcile.ts';
import { functionVersionController } from '../controllers/function-version/reconcile.ts';
import { recipeOf } from '../manifests/runtimes/recipe.ts';
import { deploymentController } from '../controllers/deployment/reconcile.ts';
import { environmentController } from '../controllers/environment/reconcile.ts';
import { inviteController } from '../controllers/invite/reconcile.ts';
import type { InviteSettings } from '../controllers/invite/reconcile.ts';
import { operationController } from '../controllers/operation/reconcile.ts';
import type { Installation, ReachMachines } from '../controllers/operation/run.ts';
import { previewController } from '../controllers/preview/reconcile.ts';
import { projectController } from '../controllers/project/reconcile.ts';
import type { AgentCalls } from '../controllers/runtime/agent-calls.ts';
import type { AnyController } from '../controllers/runtime/graph.ts';
import { walArchiveController } from '../controllers/wal-archive/reconcile.ts';
import { restoreController } from '../controllers/restore/reconcile.ts';
import { runController } from '../controllers/run/reconcile.ts';
import { serverController } from '../controllers/server/reconcile.ts';
import type { ServerSettings } from '../controllers/server/reconcile.ts';
import { syncController } from '../controllers/sync/reconcile.ts';
import { templateInstanceController } from '../controllers/template-instance/reconcile.ts';
import type { TemplateInstanceSettings } from '../controllers/template-instance/reconcile.ts';
import { volumeController } from '../controllers/volume/reconcile.ts';
import { webhookDeliveryController } from '../controllers/webhook-delivery/reconcile.ts';
import type { ApplyCommit } from '../store/declared/commit.ts';
import type { SealComparer, Sealer, Transplanter, Unsealer } from '../store/seal.ts';

export interface ControllerOptions
  extends Pick<InviteSettings, 'mailer' | 'publicUrl'>, Required<Pick<ServerSettings, 'agentRelease'>> {
  keyring: Transplanter & Sealer & Unsealer & SealComparer;
  random: Pick<Random, 'bytes'>;
  agents: AgentCalls;
  machines: ReachMachines;
  installation: Installation;
  applyCommit: ApplyCommit;
  probeBucket: DestinationSettings['probe'];
  bucket: BackupBucket;
  isMailOnlyLogged: boolean;
  /** The image of the proxies of servers; absent: the usual one. */
  ingressImage?: string | undefined;
  /** The image of poolers of databases; absent: the usual one. */
  poolerImage?: string | undefined;
  /** Images to build functions upon, in place of those of their runtimes. */
  runtimeImages?: TemplateInstanceSettings['runtimeImages'] | undefined;
  buildDeadlineMs: number;
  rolloutDeadlineMs: number;
  /** Ports of this machine that the control plane itself listens on. */
  ownPorts: readonly number[];
}

const defaultIngressImage = 'docker.io/library/caddy:2.11-alpine';

/** The controllers of a control plane, one per kind. */
export function controllersOf(options: ControllerOptions): AnyController[] {
  const { keyring, random, agents, machines, installation, applyCommit, probeBucket, bucket, agentRelease } = options;
  const {
    mailer,
    isMailOnlyLogged,
    publicUrl,
    ingressImage = defaultIngressImage,
    poolerImage,
    buildDeadlineMs,
    rolloutDeadlineMs,
    ownPorts,
    runtimeImages = {},
  } = options;
  return [
    projectController,
    environmentController(keyring),
    serverController({ offlineAfterMs: 45_000, agentRelease, agents, publicUrl, ingressImage }),
    applicationController({ unreadyGraceMs: 30_000, startDeadlineMs: rolloutDeadlineMs }),
    deploymentController({ queueDeadlineMs: 24 * 3_600_000, buildDeadlineMs, rolloutDeadlineMs }),
    operationController({ agents, machines, installation, secrets: keyring, buildDeadlineMs }),
    volumeController,
    databaseController({ unreadyGraceMs: 120_000, startDeadlineMs: 900_000, poolerImage, secrets: keyring }),
    backupScheduleController,
    restoreController,
    walArchiveController({ secrets: keyring, bucket }),
    backupController({ secrets: keyring, bucket, agents }),
    backupDestinationController({ secrets: keyring, probe: probeBucket, bucket }),
    runController,
    functionController,
    functionVersionController({ recipe: recipeOf, buildDeadlineMs }),
    webhookDeliveryController,
    previewController({ buildDeadlineMs }),
    templateInstanceController({ buildDeadlineMs, ownPorts, runtimeImages, secrets: keyring }),
    syncController({ agents, apply: applyCommit }),
    inviteController({
      mailer,
      isOnlyLogged: isMailOnlyLogged,
      publicUrl,
      bytes: (count) => random.bytes(count),
    }),
  ];
}
