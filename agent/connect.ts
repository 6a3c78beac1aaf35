import { randomUUID } from 'node:crypto';
import type { Duplex } from 'node:stream';
import type { Logger } from 'pino';
import { WebSocket } from 'ws';
import { AgentSession } from '../agent-protocol/agent-session.ts';
import type { AgentEnd } from '../agent-protocol/agent-session.ts';
import type { Refusal } from '../agent-protocol/control-session.ts';
import { wait } from '../time/clock.ts';
import type { Clock } from '../time/clock.ts';
import type { Verdict } from '../agent-protocol/control-proof.ts';
import { maxControlFrameBytes } from '../agent-protocol/codec.ts';
import { agentCapabilities, protocols, subprotocol } from '../agent-protocol/messages.ts';
import { makePass, passHeader } from '../agent-protocol/pass.ts';
import { socketWire } from '../agent-protocol/socket-wire.ts';
import type { AgentHost } from '../agent-protocol/agent-host.ts';
import type { Identity } from './identity.ts';
import type { Machine } from './machine/machine.ts';

export interface ConnectOptions {
  /**
   * Base URLs of the control plane's replicas with the tenant's segment, `http:` or `https:`, such as
   * `https://example.org/acme`. Each attempt takes the next one.
   */
  urls: readonly [string, ...string[]];
  /** Opens the connection in place of TCP or TLS to the address. */
  dial?: () => Duplex;
  identity: Identity;
  machine: Machine;
  agentVersion: string;
  /** Called whenever the control plane has welcomed the agent. */
  welcomed?: (session: Pick<AgentSession, 'ask'>) => void;
  /** Called whenever a session, or an attempt to begin one, has ended. */
  ended?: (end: AgentEnd) => void;
  /** Capabilities beside those of every agent of this build. */
  alsoCapable?: readonly string[];
  /** Capabilities that the operator of this machine switched off. */
  forbids?: readonly string[];
  /** Name and version of the container engine, as known at each attempt. */
  runtime: () => { name: string; version: string };
  backend: AgentHost;
  clock: Clock;
  /** Uniform in [0, 1). */
  random: () => number;
  log: Logger;
}

const limits = {
  handshakeMs: 10_000,
  backoffFirstMs: 1000,
  /** When a control plane returns, all agents must have connected and settled within a minute. */
  backoffMaxMs: 20_000,
  /** Lower bound of the delay, before jitter, after a refusal whose cause does not pass by itself. */
  refusedMs: 30_000,
  /** Upper bound of that delay: the control plane may be restored, or the server registered again. */
  slowMs: 5 * 60_000,
  /** Delay, before jitter, after a final refusal, which may have been a mistake. */
  retiredMs: 60 * 60_000,
} as const;

/**
 * Keeps the agent connected to its control plane until the signal aborts, then sends a goodbye. The loss of the control
 * plane stops no workload: the agent reconciles the set on its disk.
 *
 * Attempts are spread by full jitter over [0, min(20 s, 1 s · 2ⁿ)], where n counts the failures since the last welcome.
 * Agents that come at once are spread by the control plane's own admission. A goodbye or refusal has its own delay.
 */
export async function connect(options: ConnectOptions, signal: AbortSignal): Promise<void> {
  const { clock, log, random } = options;
  const isOver = (): boolean => signal.aborted;
  const processId = randomUUID();
  let failures = 0;
  let turn = 0;
  while (!isOver()) {
    const url = options.urls[turn++ % options.urls.length] ?? options.urls[0];
    const { end, wasWelcomed } = await connectOnce(options, { url, processId }, signal);
    if (isOver()) return;
    options.ended?.(end);
    failures = wasWelcomed ? 1 : failures + 1;
    const waitMs = delay(end, failures, random);
    logEnd(log, end, waitMs);
    await wait(clock, waitMs, signal).catch(() => undefined); // rejects when aborted: the loop ends
  }
}

/** Returns the milliseconds until the next attempt. Pure except for `random`. */
export function delay(end: AgentEnd, failures: number, random: () => number): number {
  const jitter = (ms: number): number => random() * ms;
  const backoff = jitter(Math.min(limits.backoffMaxMs, limits.backoffFirstMs * 2 ** Math.max(0, failures - 1)));
  switch (end.kind) {
    case 'lost':
    case 'impostor':
      return backoff;
    case 'goodbye':
      return end.retryAfterMs === undefined ? backoff : jitter(end.retryAfterMs);
    case 'refused':
      switch (end.code) {
        case 'busy':
          return end.retryAfterMs + jitter(Math.min(1000, end.retryAfterMs));
        case 'retired':
          return limits.retiredMs / 2 + jitter(limits.retiredMs / 2);
        case 'unknown':
        case 'unauthorized':
        case 'upgrade':
        case 'superseded': {
          const slow = Math.min(Math.max(end.retryAfterMs, limits.refusedMs), limits.slowMs);
          return slow / 2 + jitter(slow / 2);
        }
      }
  }
}

function logEnd(log: Logger, end: AgentEnd, waitMs: number): void {
  const retryInMs = Math.round(waitMs);
  switch (end.kind) {
    case 'lost':
      log.warn({ why: end.why, retryInMs }, 'Connection to the control plane lost');
      return;
    case 'impostor':
      log.error(
        { why: end.why, advice: advice.impostor, retryInMs },
        'Another control plane than the known one answered: the agent does not follow it, and workloads go on running',
      );
      return;
    case 'goodbye':
      log.info({ why: end.reason, retryInMs }, 'The control plane closed the connection');
      return;
    case 'refused': {
      const { code, message } = end;
      if (code === 'busy') log.info({ code, why: message, retryInMs }, 'Control plane is busy');
      else
        log.error(
          { code, why: message, advice: advice[code], retryInMs },
          'The control plane refuses this agent: workloads go on running, but nothing is changed',
        );
    }
  }
}

function logTrust(log: Logger, { controlKeyHash: known }: Identity, verdict: Verdict): void {
  if (verdict.kind === 'unproven')
    log.warn(
      'The control plane is of an earlier release and cannot prove its identity: the agent removes only a few instances at once until it is upgraded',
    );
  else if (verdict.kind === 'proven' && known === undefined)
    log.warn(
      { controlKey: verdict.keyHash },
      'Learned the key of the control plane: from now on the agent follows only a control plane with this key',
    );
  else if (verdict.kind === 'proven' && known !== verdict.keyHash)
    log.info({ controlKey: verdict.keyHash }, 'The control plane has a new key');
}

/** What the operator of this machine can do, by the code of the refusal. */
const advice = {
  unauthorized: 'Make a new join token by `setpoint join SERVER`, and run the command that it prints on this machine',
  unknown:
    'If the server was deleted, remove this agent by `setpoint-agent uninstall`, or stop it where it runs from a ' +
    'checkout. Else create the server, and start the agent with its join token and an empty data directory',
  retired:
    'The server was deleted: remove this agent by `setpoint-agent uninstall`, or let it join as another server with an ' +
    'empty data directory',
  upgrade: 'Install the release that the control plane runs',
  superseded: 'Another agent runs with this identity: stop one of them, and never copy a data directory',
  impostor:
    'Check which machine answers at the address of the control plane. If it was installed anew or is of an earlier ' +
    'release, make a join token by `setpoint join SERVER`, and run the command that it prints on this machine',
} as const satisfies Record<Exclude<Refusal['code'], 'busy'> | 'impostor', string>;

function connectOnce(
  options: ConnectOptions,
  { url, processId }: { url: string; processId: string },
  signal: AbortSignal,
): Promise<{ end: AgentEnd; wasWelcomed: boolean }> {
  const { identity, machine, backend, clock, log } = options;
  const runtime = options.runtime();
  return new Promise((resolve) => {
    const socket = new WebSocket(connectUrl(url), subprotocol, {
      perMessageDeflate: false,
      maxPayload: maxControlFrameBytes,
      handshakeTimeout: limits.handshakeMs,
      headers: { [passHeader]: makePass(identity.serverId, clock.now(), (bytes) => identity.sign(bytes)) },
      ...(options.dial !== undefined && { createConnection: options.dial }),
    });
    let saving = Promise.resolve();
    let wasWelcomed = false;
    const leave = (): void => session.goodbye('Agent stops');
    const session: AgentSession = new AgentSession({
      wire: socketWire(socket, clock, () => session),
      clock,
      host: backend,
      hello: {
        protocols: [...protocols],
        agent_version: options.agentVersion,
        server_id: identity.serverId,
        public_key: identity.publicKey,
        ...(identity.joinToken !== undefined && { join_token: identity.joinToken }),
        boot_id: machine.bootId,
        machine_id: machine.machineId,
        process_id: processId,
        runtime: runtime.name,
        runtime_version: runtime.version,
        capabilities: [...agentCapabilities, ...(options.alsoCapable ?? [])],
        ...(options.forbids !== undefined && { forbids: [...options.forbids] }),
      },
      sign: (bytes) => identity.sign(bytes),
      controlKeyHash: identity.controlKeyHash,
      welcomed: ({ session: id }, verdict) => {
        wasWelcomed = true;
        options.welcomed?.(session);
        log.info({ session: id }, 'Connected to the control plane');
        logTrust(log, identity, verdict);
        const known = verdict.kind === 'proven' ? verdict.keyHash : undefined;
        saving = identity
          .joined(known)
          .catch((error: unknown) =>
            log.error({ err: error }, 'Cannot store the identity of the agent: check the disk of the data directory'),
          );
      },
      fault: (error) => log.error({ err: error }, 'Agent failed on a message of the control plane'),
      ended: (end) => {
        signal.removeEventListener('abort', leave);
        void saving.then(() => resolve({ end, wasWelcomed }));
      },
    });
    socket.on('open', () => session.start());
    if (signal.aborted) leave();
    signal.addEventListener('abort', leave, { once: true });
  });
}

function connectUrl(base: string): URL {
  const url = new URL(base);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  url.pathname = `${url.pathname.replace(/\/$/, '')}/agent/v1/connect`;
  return url;
}
