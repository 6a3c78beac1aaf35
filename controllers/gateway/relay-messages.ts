import { createHmac, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import { CallParams, StreamParams } from '../../agent-protocol/messages.ts';
import { limits } from './limits.ts';

/**
 * The messages by which a replica reaches an agent that another replica holds: one connection per call or stream.
 *
 *     B → A  challenge        32 random bytes
 *     A → B  open             the request, and its proof by the key of the cluster over challenge and request
 *     B → A  result           of a call or a question to B itself; or bytes of the stream as in the agent's protocol, ended by flag or `reset`
 *     A → B  credit, end      room for more bytes; the reader left
 *     A → B  bytes            input of a duplex stream under the credit of B, ended by flag or `reset`
 *     B → A  credit, end      room for more input; both directions of a duplex stream are over
 *     B → A  moved            the agent is not held by B (any more): look again
 *
 * B answers a request of a later release, which it cannot pass on, with the error `unsupported`.
 */
export const relaySubprotocol = 'setpoint-relay.v1';

/** Header of the connection request that holds the pass, see {@link relayPass}. */
export const relayPassHeader = 'x-setpoint-relay-pass';

/** Most servers that one request for round trips names. */
export const maxAskedServers = 1000;

export const RelayRequest = z.object({
  tenant: z.string(),
  server: z.string(),
  what: z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('call'), params: CallParams, timeout_ms: z.int() }),
    z.object({ kind: z.literal('stream'), params: StreamParams, credit: z.int(), duplex: z.boolean().optional() }),
    /** Asks the replica itself for the round trips of those of these servers that it holds; `server` is not used. */
    z.object({ kind: z.literal('round_trips'), servers: z.array(z.string()).max(maxAskedServers) }),
  ]),
});
export type RelayRequest = z.infer<typeof RelayRequest>;

/** A request of a later release: what it asks of the agent is not known here, or its parameters are not. */
export const LaterRequest = z.object({
  tenant: z.string(),
  server: z.string(),
  what: z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('call'), params: z.object({ method: z.string() }) }),
    z.object({ kind: z.literal('stream'), params: z.object({ kind: z.string() }) }),
  ]),
});
export type LaterRequest = z.infer<typeof LaterRequest>;

/** Answer to `round_trips`: milliseconds by server. */
export const RoundTrips = z.record(z.string(), z.number());

export const ToHolder = z.discriminatedUnion('type', [
  /** `request` is a RelayRequest as JSON: the proof is over these very bytes. */
  z.object({ type: z.literal('open'), request: z.string(), proof: z.string() }),
  z.object({ type: z.literal('credit'), bytes: z.int() }),
  z.object({ type: z.literal('end') }),
  /** The source of the input failed. */
  z.object({ type: z.literal('reset'), code: z.string(), message: z.string() }),
]);
export type ToHolder = z.infer<typeof ToHolder>;

export const FromHolder = z.discriminatedUnion('type', [
  z.object({ type: z.literal('challenge'), nonce: z.string() }),
  z.object({ type: z.literal('moved') }),
  z.object({
    type: z.literal('result'),
    ok: z.unknown().optional(),
    error: z.object({ code: z.string(), message: z.string() }).optional(),
  }),
  z.object({ type: z.literal('accept'), credit: z.int().min(0).optional() }),
  z.object({ type: z.literal('credit'), bytes: z.int() }),
  z.object({ type: z.literal('end') }),
  /** `input`: only the input is over, as it is not read any more. */
  z.object({ type: z.literal('reset'), code: z.string(), message: z.string(), only: z.literal('input').optional() }),
]);
export type FromHolder = z.infer<typeof FromHolder>;

/** Proof that the sender of the request is a replica of this cluster. */
export function relayProof(clusterKey: Uint8Array, nonce: string, request: string): string {
  return createHmac('sha256', clusterKey).update(`${relaySubprotocol}\0${nonce}\0${request}`).digest('base64url');
}

export function isRelayProof(clusterKey: Uint8Array, nonce: string, request: string, proof: string): boolean {
  return isSame(proof, relayProof(clusterKey, nonce, request));
}

/**
 * Pass for a connection to the replica of that address that begins now: the time in milliseconds since 1970, and a code over
 * it by the key of the cluster. A pass grants no access: with it the other replica keeps a place when strangers take all
 * others.
 */
export function relayPass(clusterKey: Uint8Array, url: string, now: Date): string {
  const at = now.getTime();
  return `${at}.${passCode(clusterKey, url, at)}`;
}

/** True if a replica of this cluster made the pass for that address within the last 5 minutes. Never throws. */
export function isRelayPass(clusterKey: Uint8Array, url: string, pass: string, now: Date): boolean {
  const [, at, code] = /^(\d{1,15})\.([A-Za-z0-9_-]{43})$/.exec(pass) ?? [];
  if (at === undefined || code === undefined) return false;
  if (Math.abs(now.getTime() - Number(at)) > limits.relay.passMs) return false;
  return isSame(code, passCode(clusterKey, url, Number(at)));
}

function passCode(clusterKey: Uint8Array, url: string, at: number): string {
  return createHmac('sha256', clusterKey).update(`setpoint-relay-pass.v1\0${url}\0${at}`).digest('base64url');
}

function isSame(given: string, wanted: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(wanted)];
  return one.length === other.length && timingSafeEqual(one, other);
}
