import { mkdir } from 'node:fs/promises';
import type { Logger } from 'pino';
import type { AgentHost } from '../agent-protocol/agent-host.ts';
import { forbiddable, installedCapabilities, updateCapability } from '../agent-protocol/messages.ts';
import { wait } from '../time/clock.ts';
import type { Clock } from '../time/clock.ts';
import { backendOf } from './backend.ts';
import { connect } from './connect.ts';
import { openEntrances } from './entrances.ts';
import type { Entrances } from './entrances.ts';
import type { Ledger } from './engine/ledger.ts';
import type { Observer } from './engine/observer.ts';
import { openFiles } from './files.ts';
import type { Files } from './files.ts';
import type { Fleet } from './fleet.ts';
import { FleetLink } from './fleet-link.ts';
import { openIdentity } from './identity.ts';
import type { Identity } from './identity.ts';
import { readMachine } from './machine/machine.ts';
import { observe } from './observation.ts';
import type { Observation } from './observation.ts';
import type { AgentOptions } from './options.ts';
import { ControlPlane } from './tasks/control-plane.ts';
import { UninstallOrder } from './uninstall/order.ts';
import { keepHouse } from './upkeep.ts';
import { employ } from './work.ts';

/** A running agent. Disposal sends a goodbye and stops the agent: containers and their ports stay as they are. */
export interface Agent extends AsyncDisposable {
  readonly serverId: string;
  readonly backend: AgentHost;
  /** Resolves when every desired assignment was inspected since the start and the ports follow, or after 10 s. */
  settled(): Promise<void>;
  /** Resolves when the agent is to be removed from its machine, as its server was deleted. */
  readonly dismissed: Promise<void>;
}

/** What works from its start until the agent stops. */
type LiveParts = Pick<Files, 'ledger'> &
  Pick<Observation, 'monitor' | 'observer'> &
  Pick<Entrances, 'publication' | 'ingress'> & {
    fleet: Fleet;
    identity: Identity;
    backend: AgentHost;
    uninstall: UninstallOrder;
    control: ControlPlane;
  };

/** The agent connects after this time, also if the engine or an instance does not answer. */
const settleMs = 10_000;
/** Time until the next attempt to record the containers that were found. */
const recordAgainMs = 5_000;

/**
 * Starts an agent from its data directory. Neither the control plane nor the engine needs to answer for that.
 * @throws Error if there is no identity, or a file of the data directory cannot be read or written
 */
export async function startAgent(options: AgentOptions): Promise<Agent> {
  const { dataDir, clock, log } = options;
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const identity = await openIdentity(dataDir, options.joinToken);
  const server = identity.serverId;
  const isInstalled = options.isInstalled === true;

  const stack = new AsyncDisposableStack();
  try {
    const link = new FleetLink();
    const control = new ControlPlane();
    const files = { ...(await openFiles(options, identity, stack)), server, control, networks: new Set<string>() };
    const seen = { ...files, ...observe(options, files, link, stack) };
    const kept = { ...seen, ...keepHouse(options, seen, link, stack) };
    const parts = { ...kept, ...(await openEntrances(options, kept, link, stack)) };
    const fleet = employ(options, parts, link, stack);
    const { desired, observer } = parts;
    const uninstall = stack.use(new UninstallOrder({ desired, fleet, observer, dataDir, isInstalled, clock, log }));
    const backend = backendOf(options, { ...parts, fleet, uninstall });

    await parts.meter.start();
    fleet.sync();
    const settled = live(options, { ...parts, fleet, identity, backend, uninstall }, stack);
    const owned = stack.move();
    return {
      serverId: server,
      backend,
      settled: () => settled,
      dismissed: uninstall.dismissed,
      [Symbol.asyncDispose]: () => owned.disposeAsync(),
    };
  } catch (error) {
    await stack.disposeAsync();
    throw error;
  }
}

/**
 * Lets the agent observe its engine and connect to the control plane; `stack` ends both. It connects also while its
 * engine does not answer, so that users see why the server does nothing.
 *
 * @returns what resolves when the agent is settled, see {@link Agent.settled}
 */
function live(options: AgentOptions, parts: LiveParts, stack: AsyncDisposableStack): Promise<void> {
  const { clock, log } = options;
  const { monitor, observer } = parts;
  const stop = new AbortController();
  const watching = watch({ ...parts, clock, log }, stop.signal);
  const late = wait(clock, settleMs, stop.signal).catch(() => undefined); // rejects only when the agent stops
  const settled = Promise.race([watching, late]);
  const connected = Promise.race([settled, monitor.failed]).then(() => keepConnected(options, parts, stop.signal));
  stack.defer(async () => {
    stop.abort(new Error('The agent is stopping'));
    // The end of the observer ends `watching`; the connection sends a goodbye.
    await Promise.allSettled([observer[Symbol.asyncDispose](), watching, connected]);
  });
  connected.catch((error: unknown) =>
    log.error(
      { err: error },
      'The agent does not connect to the control plane any more, which is a bug: restart the agent',
    ),
  );
  return settled;
}

/** Connects to the control plane, if the agent has one, and again whenever the connection is lost. */
async function keepConnected(
  {
    controlPlane,
    dial,
    engine,
    version,
    isInstalled,
    welcomed,
    updater,
    serverShells,
    clock,
    random,
    log,
  }: AgentOptions,
  { monitor, identity, backend, uninstall, control }: LiveParts,
  signal: AbortSignal,
): Promise<void> {
  if (controlPlane === undefined || signal.aborted) return;
  await monitor.asked();
  await connect(
    {
      urls: controlPlane,
      ...(dial !== undefined && { dial }),
      identity,
      machine: await readMachine(identity.serverId),
      agentVersion: version,
      welcomed: (session) => {
        control.entered(session);
        welcomed?.();
      },
      ended: (end) => {
        control.left();
        uninstall.sessionEnded(end);
      },
      alsoCapable: [
        ...(isInstalled === true ? installedCapabilities : []),
        ...(updater === undefined ? [] : [updateCapability]),
      ],
      ...(serverShells === undefined && { forbids: [forbiddable.serverTerminals] }),
      runtime: () => ({ name: engine.runtime.name, version: monitor.state.version ?? 'unknown' }),
      backend,
      clock,
      random,
      log,
    },
    signal,
  );
}

/**
 * Observes the engine as soon as it answers and records the agent's containers in the ledger. Then lets the ports
 * follow the ready instances.
 */
async function watch(
  it: Pick<LiveParts, 'observer' | 'ledger' | 'fleet' | 'publication' | 'ingress'> & { clock: Clock; log: Logger },
  signal: AbortSignal,
): Promise<void> {
  const { observer, fleet, publication, log } = it;
  try {
    await observer.start();
    await record(it, signal);
    fleet.sync();
    await fleet.settled(signal);
    if (!signal.aborted) await publication.release();
    if (!signal.aborted) it.ingress.release();
    // what is to end was kept until nothing leads to it
    fleet.wakeAll();
  } catch (error) {
    if (!signal.aborted)
      log.error({ err: error }, 'Ports do not follow the instances of this server, which is a bug: restart the agent');
  }
}

/** Records the containers that the agent made. Resolves when that is on disk. @throws Error once the signal aborts */
async function record(
  { observer, ledger, clock, log }: { observer: Observer; ledger: Ledger; clock: Clock; log: Logger },
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    try {
      for (const id of observer.assignments())
        for (const { container, origin } of observer.of(id))
          if (origin === 'intended') await ledger.made(container.id, container.name);
      await ledger.complete(observer.ids());
      return;
    } catch (error) {
      log.error(
        { err: error },
        'Cannot record the containers of this server: ports do not follow its instances until the agent can, which tries again. Check the disk of the data directory',
      );
    }
    await wait(clock, recordAgainMs, signal);
  }
}
