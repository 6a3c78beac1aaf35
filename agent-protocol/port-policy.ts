import { z } from 'zod';

const Port = z.int().min(1).max(65_535);

/** Most ports that an administrator may reserve on one server, and most that they may bind. */
const maxNamedPorts = 1000;

/** The ports of a server that its applications may take. */
export const PortPolicy = z.object({
  /** First and last port that any application may take. */
  from: Port,
  to: Port,
  /** Ports that no application may take. */
  reserved: z.array(Port).max(maxNamedPorts),
  /** Ports that the control plane itself is reached at. */
  own: z.array(Port).max(maxNamedPorts),
  /** Ports that only the applications of one project may take; they may lie outside of `from` to `to`. */
  bindings: z.array(z.object({ port: Port, project_id: z.string() })).max(maxNamedPorts),
});
export type PortPolicy = z.infer<typeof PortPolicy>;

/** The port that an application asks for. */
interface Wanted {
  port: number;
  project: string;
  /** The application has the port already: only a reservation or a binding takes it away, a changed range does not. */
  held: boolean;
}

/** Returns why an application may not have a port and what to do, or `undefined` if it may. */
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
