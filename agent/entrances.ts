import { join } from 'node:path';
import type { Observer } from './engine/observer.ts';
import type { Files } from './files.ts';
import type { FleetLink } from './fleet-link.ts';
import { Functions } from './functions/functions.ts';
import { mockProxy } from './ingress/mock-proxy.ts';
import { ServerIngress } from './ingress/server-ingress.ts';
import type { AgentOptions } from './options.ts';
import { Publication } from './ports/publication.ts';

/** How requests reach instances: by ports of the server, by its proxy, by calls of functions. */
export interface Entrances {
  publication: Publication;
  ingress: ServerIngress;
  functions: Functions;
}

const examineMs = 30_000;

/** `stack` ends them, and leaves ports and routes as they are. */
export async function openEntrances(
  { dataDir, engine, openProxy = mockProxy, clock, log }: AgentOptions,
  { observer, desired, executions }: Pick<Files, 'desired' | 'executions'> & { observer: Observer },
  link: FleetLink,
  stack: AsyncDisposableStack,
): Promise<Entrances> {
  const publication = stack.use(
    await Publication.open({
      publisher: engine.ports,
      path: join(dataDir, 'ports.json'),
      isSetKnown: desired.position() !== undefined,
      clock,
      log,
      changed: link.portsChanged,
    }),
  );
  const ingress = stack.use(
    new ServerIngress({
      folder: join(dataDir, 'ingress'),
      trafficFolder: join(dataDir, 'traffic'),
      openProxy,
      opened: (ports) => publication.admit(ports),
      examine: async (assignment, command, signal) => {
        const running = observer.of(assignment).find(({ container }) => container.state === 'running');
        if (running === undefined) throw new Error('The proxy does not run');
        const { id } = running.container;
        const { exitCode, output } = await engine.runtime.run(id, command, { timeoutMs: examineMs }, signal);
        if (exitCode !== 0 && exitCode !== 1) throw new Error(`The examination ended with code ${exitCode}`);
        return exitCode === 0 ? undefined : output.slice(-500);
      },
      clock,
      log,
      changed: link.wake,
    }),
  );
  return { publication, ingress, functions: new Functions({ log: executions, clock }) };
}
