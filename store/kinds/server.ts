import { z } from 'zod';
import { DirectPorts } from '../direct-ports.ts';
import { defineKind } from './define.ts';
import { Id, Name, Port, Timestamp } from './fields.ts';
import { ServerIngress } from './server-ingress.ts';
import { ProvisioningStep } from './provisioning-step.ts';

export const ServerPhase = z.enum(['active', 'provisioning', 'error', 'offline']);
export type ServerPhase = z.infer<typeof ServerPhase>;

export const server = defineKind({
  kind: 'server',
  version: 1,
  /** Only the API acts on it. */
  ignorable: ['allowed_projects'],
  desired: z.object({
    name: Name,
    ip_address: z.string().optional(),
    port: Port.default(22),
    username: z.string().default('root'),
    ssh_key_id: Id.optional(),
    /** The key by which its machine proves itself; no other one is talked to. `fingerprint`: as `ssh-keygen -l` prints it. */
    host_key: z.object({ type: z.string().optional(), fingerprint: z.string() }).optional(),
    log_retention_days: z.int().min(1).max(365).default(7),
    /** Workloads with an `exposed_port` are reachable at that port of the server. */
    direct_ports_enabled: z.boolean().default(false),
    /** Which of its ports they may take; absent: the usual ones. */
    direct_ports: DirectPorts.optional(),
    /** Its proxy; absent: none. */
    ingress: ServerIngress.optional(),
    /** Projects that may use it; absent: all. */
    allowed_projects: z.array(Id).max(1000).optional(),
    /** SHA-256 (hex) of the one-time join token; removed by the join that used it. */
    join_token_hash: z.string().optional(),
    join_token_expires_at: Timestamp.optional(),
    /** Another value asks for another attempt to provision its machine. */
    provision_attempt: z.string().optional(),
    /** Ed25519 public key (raw, base64url) that the agent registered with its join token. */
    agent_public_key: z.string().optional(),
    agent_id: Id.optional(),
    /** The version that its agent was last asked to run. A version that failed is tried again at another time only. */
    agent_update: z.object({ version: z.string(), requested_at: Timestamp }).optional(),
  }),
  observed: z.object({
    phase: ServerPhase,
    agent_version: z.string().optional(),
    runtime: z.string().optional(),
    runtime_version: z.string().optional(),
    boot_id: z.string().optional(),
    machine_id: z.string().optional(),
    /** Time of the update that was carried out: a version that was put back on the machine since then stays. */
    update_done: Timestamp.optional(),
    /** Why the update of that time failed. */
    update_failure: z
      .object({ version: z.string(), requested_at: Timestamp, reason: z.string(), message: z.string() })
      .optional(),
    /** What came of its provisioning by SSH, until its agent joins. */
    provisioning: z
      .object({
        asked: z.string(),
        state: z.enum(['running', 'failed']),
        steps: z.array(ProvisioningStep).max(16),
      })
      .optional(),
  }),
  unique: (d) => [{ scope: 'all', name: d.name }],
  populates: { ssh_key: 'ssh_key' },
  indexes: { ssh_key: (d) => d.ssh_key_id },
  agentRecords: true,
  finalizers: ['server'],
  keep: { untilDeleted: 'A user deletes it' },
});
