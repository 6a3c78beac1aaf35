import type { FailureCode } from '../../agent-protocol/failure-codes.ts';
import { hostNetwork, mainService } from '../../agent-protocol/workload.ts';
import { defined } from '../../store/defined.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import { ServiceSpec } from '../../store/kinds/assignment.ts';
import { assignmentId } from '../../store/kinds/assignment-id.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { enabledIngress } from '../../store/kinds/server-ingress.ts';
import type { ServerIngress } from '../../store/kinds/server-ingress.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ConditionInput, ReadonlyResource } from '../../store/resource.ts';
import { planOne } from '../rollout/actions.ts';
import type { Action } from '../rollout/actions.ts';
import { serviceHash } from '../rollout/spec-hash.ts';
import type { Assignment } from '../rollout/slots.ts';
import { upToDate } from '../runtime/up-to-date.ts';

type Server = ReadonlyResource<'server'>;

const role = 'ingress';
/** The proxy may use so much memory before the kernel ends it. */
const memoryBytes = 512 * 1024 ** 2;

export function proxyOf(server: Server, view: Pick<TenantView, 'get'>): Assignment | undefined {
  return view.get('assignment', assignmentId.task(server.meta.id, role));
}

/** The write that makes the server have the proxy that it is to have. Pure. */
export function planProxy(server: Server, present: Assignment | undefined, image: string): Action[] {
  const settings = enabledIngress(server.desired);
  return planOne(server, role, { present, desired: settings && proxy(server, settings, image) });
}

function proxy(
  { meta: { id } }: Server,
  settings: DeepReadonly<ServerIngress>,
  image: string,
): DesiredOf<'assignment'> {
  const {
    http_port,
    https_port,
    trusted_proxies,
    acme_directory: directory,
    acme_email: email,
    acme_ca: ca,
  } = settings;
  const spec: ServiceSpec = ServiceSpec.parse({
    type: 'service',
    slot: 0,
    image,
    command: ['caddy', 'run', '--config', '/setpoint/caddy.json'],
    networks: [{ name: hostNetwork, aliases: [] }],
    probe: { type: 'tcp', port: http_port },
    limits: { memory_bytes: memoryBytes, oom_score_adj: 0 },
    read_only_root: true,
    capabilities: { drop: ['ALL'], add: ['NET_BIND_SERVICE'] },
    restart_policy: 'always',
    ingress: { http_port, https_port, acme: defined({ directory, email, ca }), trusted_proxies },
  });
  return {
    server_id: id,
    project_id: id,
    environment_id: id,
    workload_kind: 'server',
    workload_id: id,
    workload_name: 'ingress',
    service: mainService,
    version: id,
    run: 'running',
    spec,
    spec_hash: serviceHash(id, spec),
  };
}

/** Whether the proxy of the server runs; nothing for a server without one. */
export function proxyCondition(server: Server, present: Assignment | undefined): ConditionInput[] {
  if (enabledIngress(server.desired) === undefined) return [];
  const observed = present && upToDate(present);
  const type = 'IngressReady';
  const code: FailureCode = 'proxy_refused';
  if (observed?.error?.code === code)
    return [{ type, status: 'false', reason: 'Refused', message: observed.error.message }];
  if (observed?.ready === true)
    return [{ type, status: 'true', reason: 'Running', message: 'Its proxy leads domains to applications' }];
  if (observed?.error === undefined)
    return [{ type, status: 'false', reason: 'Starting', message: 'Its proxy is being started' }];
  const { message } = observed.error;
  return [{ type, status: 'false', reason: observed.crash_loop ? 'CrashLoop' : 'NotRunning', message }];
}
