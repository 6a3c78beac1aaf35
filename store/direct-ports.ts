import { z } from 'zod';
import { Id, Port } from './kinds/fields.ts';
import { ingressPorts } from './kinds/server-ingress.ts';
import type { DeepReadonly } from './deep-readonly.ts';

/** How many ports an administrator may reserve, and bind, on one server. */
const maxNamed = 1000;

/** Which ports of a server its applications may take. */
export const DirectPorts = z.object({
  /** First and last port that any application may take. */
  from: Port,
  to: Port,
  /** Ports that no application may take. */
  reserved: z.array(Port).max(maxNamed),
  /** Ports that the applications of one project may take, and no others; also outside of `from` to `to`. */
  bindings: z.array(z.object({ port: Port, project_id: Id })).max(maxNamed),
});
export type DirectPorts = z.infer<typeof DirectPorts>;

/** The default of a server: ports below 1024 are those of the machine's own services. */
const usual: DirectPorts = { from: 1024, to: 65_535, reserved: [], bindings: [] };

/** The ports that the applications of a server may take. */
export function directPortsOf({ direct_ports: ports = usual }: Server): DirectPorts {
  return { ...ports, reserved: [...ports.reserved], bindings: ports.bindings.map((one) => ({ ...one })) };
}

/** The policy of ports that the agent of a server gets: the ports of its proxy are reserved. */
export function portPolicyOf(server: Server & Parameters<typeof ingressPorts>[0], own: readonly number[]) {
  const ports = directPortsOf(server);
  return { ...ports, reserved: [...ports.reserved, ...ingressPorts(server)].slice(0, maxNamed), own: [...own] };
}

interface Server {
  readonly direct_ports?: DeepReadonly<DirectPorts> | undefined;
}
