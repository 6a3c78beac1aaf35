import { z } from 'zod';

const Port = z.int().min(1).max(65_535);

/** How many ports an administrator may reserve, and bind, on one server. */
export const maxNamedPorts = 1000;

/** Which ports of a server its applications may take. */
export const PortPolicy = z.object({
  /** First and last port that any application may take. */
  from: Port,
  to: Port,
  /** Ports that no application may take. */
  reserved: z.array(Port).max(maxNamedPorts),
  /** Ports on which the control plane itself is reached. */
  own: z.array(Port).max(maxNamedPorts),
  /** Ports that the applications of one project may take, and no others; also outside of `from` to `to`. */
  bindings: z.array(z.object({ port: Port, project_id: z.string() })).max(maxNamedPorts),
});
export type PortPolicy = z.infer<typeof PortPolicy>;

/** What an application asks for. */
interface Wanted {
  port: number;
  project: string;
  /** It has the port already: what an administrator forbids by name ends that, a changed range does not. */
  held: boolean;
}

/** Why an application may not have a port, and what to do; `undefined`: it may. */
export function refusedPort(
  { from, to, reserved, own, bindings }: PortPolicy,
  { port, project, held }: Wanted,
): string | undefined {
  const bound = bindings.filter((one) => one.port === port);
  if (bound.some((one) => one.project_id === project)) return undefined;
  if (bound.length > 0) return `Port ${port} of the server is kept for another project: ${remedy}`;
  if (reserved.includes(port)) return `Port ${port} of the server is reserved: ${remedy}`;
  if (held) return undefined;
  if (own.includes(port)) return `Port ${port} is that of the control plane: ${remedy}`;
  if (port < from || port > to)
    return `Port ${port} is not among the ports that applications may take on this server, ${from} to ${to}: ${remedy}`;
  return undefined;
}

const remedy = 'choose another exposed_port, or have an administrator bind the port to the project';
