import type { PortProblem } from '../publication.ts';

/** By the code with which listening failed. */
export function unheldPort(port: number, code: string | undefined): PortProblem {
  if (code === 'EADDRINUSE') return takenPort(port);
  if (code === 'EACCES')
    return {
      code: 'port_taken',
      message: `Port ${port} of the server may not be used by the agent: choose another exposed_port, or run the agent as root`,
    };
  // What the machine is short of now it may have later.
  return {
    code: 'runtime_unavailable',
    message: `Port ${port} of the server cannot be held: ${code ?? 'unknown error'}`,
  };
}

/** Something else listens on the port. */
export function takenPort(port: number): PortProblem {
  return {
    code: 'port_taken',
    message: `Port ${port} of the server is taken by another program: end that, or choose another exposed_port, then deploy again`,
  };
}

/** Another agent of the machine publishes it. */
export function anothersPort(port: number, server: string): PortProblem {
  return {
    code: 'port_taken',
    message: `Port ${port} of the server is taken by another agent of this machine, that of server ${server}: choose another exposed_port, or stop what has it there, then deploy again`,
  };
}

/** Rules of an agent that does not run here any more lead it away. */
export function leftPort(port: number, owner: string): PortProblem {
  return {
    code: 'port_taken',
    message: `Port ${port} of the server leads to what the agent of another server (${owner}…) left, which does not run on this machine: remove that by \`setpoint agent clean\`, or start this agent with --take-over-ports, then deploy again`,
  };
}

/** It is held and leads to instances, but a connection to it was not answered. */
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

/** It leads to its instances, but the machine does not let the agent open the way for `whom`. */
export function closedPort(port: number, whom: string): string {
  return `Port ${port} of the server does not answer ${whom}: /proc/sys or the bridge of the network may not be set by the agent, as in a container without the right to; it answers everybody else`;
}
