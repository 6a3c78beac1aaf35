import type { PortProblem } from './publication.ts';

/** The agent could not listen on the port; `code` is the error code. */
export function unheldPort(port: number, code: string | undefined): PortProblem {
  if (code === 'EADDRINUSE') return takenPort(port);
  if (code === 'EACCES')
    return {
      code: 'port_taken',
      message: `Port ${port} of the server may not be used by the agent: choose another exposed_port, or run the agent as root`,
    };
  // The machine may lack resources now and have them later.
  return {
    code: 'runtime_unavailable',
    message: `Port ${port} of the server cannot be held: ${code ?? 'unknown error'}`,
  };
}

/** Another program listens on the port. */
export function takenPort(port: number): PortProblem {
  return {
    code: 'port_taken',
    message: `Port ${port} of the server is taken by another program: end that, or choose another exposed_port, then deploy again`,
  };
}

/** Another agent of the machine publishes the port. */
export function anothersPort(port: number, server: string): PortProblem {
  return {
    code: 'port_taken',
    message: `Port ${port} of the server is taken by another agent of this machine, that of server ${server}: choose another exposed_port, or stop what has it there, then deploy again`,
  };
}

/** Rules of an agent that does not run here any more lead the port elsewhere. */
export function leftPort(port: number, owner: string): PortProblem {
  return {
    code: 'port_taken',
    message: `Port ${port} of the server leads to what the agent of another server (${owner}…) left, which does not run on this machine: remove that by \`setpoint agent clean\`, or start this agent with --take-over-ports, then deploy again`,
  };
}

/** The port is held and leads to instances, but a connection to it was not answered. */
export function unansweredPort(port: number, code: string): PortProblem {
  const why =
    code === 'ECONNREFUSED'
      ? 'nothing listens there: the application must listen on its exposed_port'
      : `a connection to it failed (${code}): look at the rules of the packet filter`;
  return {
    code: 'runtime_unavailable',
    message: `Port ${port} of the server does not lead to the application, ${why}`,
  };
}

/** The port leads to its instances, but the machine does not permit the agent to open the way for `whom`. */
export function closedPort(port: number, whom: string): string {
  return `Port ${port} of the server does not answer ${whom}: /proc/sys or the bridge of the network may not be set by the agent, as in a container without the right to; it answers everybody else`;
}
