import type { PortUser } from '../machine/listeners.ts';
import type { PortProblem } from './port-publisher.ts';

/** The agent could not listen on the port; `code` is the error code, `user` who has the port. */
export function unheldPort(port: number, code: string | undefined, user?: PortUser): PortProblem {
  if (code === 'EADDRINUSE') return takenPort(port, user);
  if (code === 'EACCES')
    return {
      code: 'port_taken',
      message: `The agent has no right to listen on port ${port} of the server: run the agent as root, or choose another exposed_port`,
    };
  // The machine may lack resources now and have them later.
  return {
    code: 'runtime_unavailable',
    message: `The agent cannot listen on port ${port} of the server (${code ?? 'unknown error'}) and tries again: see the log of the agent`,
  };
}

/** Another program listens on the port; `user`: which one, if that is known. */
export function takenPort(port: number, user?: PortUser): PortProblem {
  return {
    code: 'port_taken',
    message: `Port ${port} of the server is taken by ${programAt(port, user)}: stop that, or choose another exposed_port, then deploy again`,
  };
}

/** The program of the engine that stands at a port which a container publishes. */
const ofEngine = 'docker-proxy';

/** What has a port, as a part of a sentence that stays the same while a program starts again and again. */
export function programAt(port: number, user: PortUser | undefined): string {
  if (user === undefined) return 'another program';
  if (user.name === ofEngine) return `a container (docker ps --filter publish=${port})`;
  return `another program, ${user.name}`;
}

/** Another agent of the machine publishes the port. */
export function anothersPort(port: number, server: string): PortProblem {
  return {
    code: 'port_taken',
    message: `Port ${port} of the server is taken by another agent of this machine, that of server ${server}: choose another exposed_port, or stop the application that has the port there, then deploy again`,
  };
}

/** Rules of an agent that does not run here any more lead the port elsewhere. */
export function leftPort(port: number, owner: string): PortProblem {
  return {
    code: 'port_taken',
    message: `Port ${port} of the server is taken by rules that the agent of another server (${owner}…) left, which does not run on this machine any more: remove them by \`setpoint agent clean\`, or start this agent with --take-over-ports, then deploy again`,
  };
}

/** The port is held and leads to instances, but a connection to it was not answered. */
export function unansweredPort(port: number, code: string): PortProblem {
  const why =
    code === 'ECONNREFUSED'
      ? 'nothing listens there: make the application listen on its exposed_port'
      : `a connection to it failed (${code}): check the rules of the packet filter on the server`;
  return {
    code: 'runtime_unavailable',
    message: `Port ${port} of the server does not reach the application: ${why}`,
  };
}

/** The port leads to its instances, but the machine does not permit the agent to open the way for `whom`. */
export function closedPort(port: number, whom: string): string {
  return `Port ${port} of the server does not answer ${whom}, but all other clients: the agent has no right to set /proc/sys or the bridge of the network. Run the agent as root, outside of a container`;
}
