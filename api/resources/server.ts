import { isIP } from 'node:net';
import { z } from 'zod';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { DirectPorts, directPortsOf } from '../../store/direct-ports.ts';
import { server } from '../../store/kinds/server.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { serverVerbs } from '../../rules/server.ts';
import { agentStatus, isSettled, serverStatus } from './status.ts';
import { Labels, objectFields, objectFieldsOf, Reference } from './object-fields.ts';
import { defineResource } from './resource.ts';
import { ServerIngress, ServerIngressInput, toServerIngress } from './server-ingress.ts';

const { shape } = server.desired;
const nullableText = z.string().nullable();

const ServerStatus = z.enum(['active', 'provisioning', 'error', 'offline', 'deleting']);
export const AgentStatusField = z.enum(['connected', 'disconnected', 'unknown']);

const HostKey = z.object({
  type: z.string().nullable().meta({ description: 'Such as ssh-ed25519; null: not known' }),
  fingerprint: z.string(),
});

/** What users of projects may see of a server. */
const ServerSummary = z
  .object({ id: z.string(), name: z.string(), status: ServerStatus, agent_status: AgentStatusField })
  .meta({ id: 'ServerSummary' });
type ServerSummary = z.infer<typeof ServerSummary>;

export const Server = z
  .object({
    ...objectFields,
    name: z.string(),
    ip_address: nullableText,
    port: z.int(),
    username: z.string(),
    ssh_key_id: nullableText,
    host_key: HostKey.nullable().meta({
      description: 'The key that its machine must show by SSH; null: the first one that it shows',
    }),
    status: ServerStatus,
    agent_status: AgentStatusField,
    agent_id: nullableText,
    agent_version: nullableText.meta({ description: 'The version that runs, or ran last' }),
    desired_agent_version: nullableText.meta({ description: 'The version that the agent was last asked to run' }),
    runtime: nullableText,
    runtime_version: nullableText,
    log_retention_days: z.int(),
    direct_ports_enabled: z.boolean(),
    direct_ports: DirectPorts.meta({ description: 'Ports of the server that its applications may take' }),
    ingress: ServerIngress.nullable().meta({ description: 'Its proxy, which leads domains to applications' }),
    allowed_projects: z
      .union([z.literal('all'), z.array(z.string())])
      .meta({ description: 'Projects that may use the server' }),
  })
  .meta({ id: 'Server' });
type Server = z.infer<typeof Server>;

/** An answer with the join token, which is shown only once. */
export const ServerWithJoin = z
  .object({
    ...Server.shape,
    join_token: z.string(),
    join_token_expires_at: z.string(),
    install_command: z.string(),
    install_warnings: z.array(z.string()).meta({
      description: 'Why the command does not serve another machine, or what it exposes; each in sentences',
    }),
  })
  .meta({ id: 'ServerWithJoin' });
export type ServerWithJoin = z.infer<typeof ServerWithJoin>;

const label = '[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?';
const hostName = new RegExp(`^${label}(\\.${label})*$`);

/** An IPv4 or IPv6 address without a zone, or a host name. A text that ends in a number must be an address. */
const HostAddress = z.string().min(1).max(253).refine(isHost, 'Must be an IP address or a host name');

function isHost(text: string): boolean {
  if (isIP(text) > 0) return !text.includes('%');
  return hostName.test(text) && !/(^|\.)[0-9]+$/.test(text);
}

const Username = z.string().regex(/^[A-Za-z_][A-Za-z0-9_.-]{0,31}$/, 'Must be a user name such as root');
const sshKeyText =
  'An SSH key of the tenant (/settings/ssh-keys), which cannot be deleted while a server uses it. With it and an address the control plane installs the agent by SSH';
const LogRetentionDays = z.int().min(1).max(365);

/**
 * Both spellings of a field are accepted: that of the specification and that of the object. The OpenAPI document shows
 * one of them.
 */
const fields = z.strictObject({
  name: shape.name,
  ipAddress: HostAddress.nullish(),
  ip_address: HostAddress.nullish(),
  port: z.int().min(1).max(65535).nullish(),
  username: Username.nullish(),
  sshKeyId: Reference.nullish().meta({ description: sshKeyText }),
  ssh_key_id: Reference.nullish().meta({ description: sshKeyText }),
  log_retention_days: LogRetentionDays.nullish(),
  direct_ports_enabled: z.boolean().nullish(),
  direct_ports: z.strictObject(DirectPorts.shape).partial().nullish().meta({ description: 'null: the usual ones' }),
  ingress: ServerIngressInput.nullish().meta({ description: 'null: the server has no proxy' }),
  allowed_projects: z
    .union([z.literal('all'), z.array(Reference).max(1000)])
    .nullish()
    .meta({
      description: 'Projects that may use the server; what runs there already goes on until its next deployment',
    }),
  labels: Labels.optional(),
});

/** The host key that a machine must show. */
export const TrustedHostKey = z.strictObject({
  fingerprint: z
    .string()
    .regex(/^SHA256:[A-Za-z0-9+/]{43}$/, 'Must be a fingerprint as ssh-keygen -l prints it, SHA256:…'),
  type: z
    .string()
    .regex(/^(ssh|ecdsa)-[a-z0-9-]{1,40}$/, 'Must be a type such as ssh-ed25519')
    .optional()
    .meta({ description: 'Of a machine with several host keys: which one the fingerprint is of' }),
});

export function pinnedBy({ fingerprint, type }: z.infer<typeof TrustedHostKey>): DesiredOf<'server'>['host_key'] {
  return { ...(type !== undefined && { type }), fingerprint };
}

export const ServerCreate = fields
  .extend({
    host_key: TrustedHostKey.nullish().meta({
      description:
        'The host key of the machine, which is pinned before the first login. Without it the first one shown is',
    }),
  })
  .meta({ hidden: ['ip_address', 'ssh_key_id'] });
export type ServerCreate = z.infer<typeof ServerCreate>;

export const ServerUpdate = fields.partial().meta({ hidden: ['ipAddress', 'sshKeyId'] });
export type ServerUpdate = z.infer<typeof ServerUpdate>;

function hostKeyOf(stored: DeepReadonly<DesiredOf<'server'>['host_key']>): z.infer<typeof HostKey> | null {
  return stored === undefined ? null : { type: stored.type ?? null, fingerprint: stored.fingerprint };
}

function toServer(it: ReadonlyResource<'server'>, { agent_status }: Pick<Server, 'agent_status'>): Server {
  const { desired, observed } = it;
  return {
    ...objectFieldsOf(it),
    name: desired.name,
    ip_address: desired.ip_address ?? null,
    port: desired.port,
    username: desired.username,
    ssh_key_id: desired.ssh_key_id ?? null,
    host_key: hostKeyOf(desired.host_key),
    status: serverStatus(it),
    agent_status,
    agent_id: desired.agent_id ?? null,
    agent_version: observed?.agent_version ?? null,
    desired_agent_version: desired.agent_update?.version ?? null,
    runtime: observed?.runtime ?? null,
    runtime_version: observed?.runtime_version ?? null,
    log_retention_days: desired.log_retention_days,
    direct_ports_enabled: desired.direct_ports_enabled,
    direct_ports: directPortsOf(desired),
    ingress: toServerIngress(desired.ingress),
    allowed_projects: desired.allowed_projects === undefined ? 'all' : [...desired.allowed_projects],
  };
}

export const servers = defineResource({
  kind: 'server',
  word: 'Server',
  project: 'tenant',
  answer: Server,
  seen: (it, view) => ({ agent_status: agentStatus(it, view) }),
  show: toServer,
  masked: {
    answer: ServerSummary,
    show: (it, { agent_status }) => ({
      id: it.meta.id,
      name: it.desired.name,
      status: serverStatus(it),
      agent_status,
    }),
  },
  list: {
    texts: ({ desired }) => [desired.name],
    status: { values: ServerStatus.options, of: serverStatus },
    filters: {
      projectId: (id, view) => {
        const used = serversOf(id, view);
        return (it) => used.has(it.meta.id);
      },
    },
  },
  isSettled,
  verbs: serverVerbs,
  // that its agent connects or leaves is no change of an object: see ChangeFeed
  watch: { shows: {} },
});

/** The servers of a project: its default server and those of its workloads and volumes. */
function serversOf(projectId: string, view: TenantView): ReadonlySet<string | undefined> {
  const kinds = ['application', 'database', 'function', 'volume'] as const;
  const used = kinds.flatMap((kind) => view.by(kind, 'project', projectId).map((it) => it.desired.server_id));
  return new Set([view.get('project', projectId)?.desired.default_server_id, ...used]);
}
