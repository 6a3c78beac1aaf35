import type { z } from 'zod';
import { decodeData } from './data-frame.ts';
import type { Data } from './data-frame.ts';
import { AgentMessage, ControlMessage } from './messages.ts';
import type { Frame } from './wire.ts';

/** Largest frame that the control plane accepts, in bytes. */
export const maxFrameBytes = 1024 * 1024;
/** Largest frame that an agent accepts, in bytes: the largest item that the store allows fits, also escaped. */
export const maxControlFrameBytes = 8 * 1024 * 1024;
export type Decoded<M> =
  | { kind: 'message'; message: M }
  | { kind: 'data'; data: Data }
  /** A message of a type that this version does not know. It is answered with `unsupported`. */
  | { kind: 'unknown'; type: string }
  /** The frame breaks the protocol: the connection is closed with the reason. */
  | { kind: 'malformed'; reason: string };

/** Decodes a frame from an agent. Drops unknown fields. Never throws. */
export const decodeAgentFrame = decoder(AgentMessage);

/** Decodes a frame from the control plane. Drops unknown fields. Never throws. */
export const decodeControlFrame = decoder(ControlMessage);

export function encodeMessage(message: AgentMessage | ControlMessage): string {
  return JSON.stringify(message);
}

function decoder<const T extends readonly z.ZodObject[]>(union: z.ZodDiscriminatedUnion<T>) {
  type M = z.output<z.ZodDiscriminatedUnion<T>>;
  const types = new Set(union.options.flatMap((option) => [...typesOf(option)]));

  return (frame: Frame): Decoded<M> => {
    if (typeof frame !== 'string') {
      const data = decodeData(frame);
      return data === undefined
        ? { kind: 'malformed', reason: 'Binary frame is too short or too long' }
        : { kind: 'data', data };
    }
    let json: unknown;
    try {
      json = JSON.parse(frame);
    } catch {
      return { kind: 'malformed', reason: 'Text frame is no JSON' };
    }
    const type = typeOf(json);
    if (type === undefined) return { kind: 'malformed', reason: 'Message has no type' };
    if (!types.has(type)) return { kind: 'unknown', type };
    const parsed = union.safeParse(json);
    if (parsed.success) return { kind: 'message', message: parsed.data };
    const [issue] = parsed.error.issues;
    const where = [type, ...(issue?.path ?? [])].join('.');
    return { kind: 'malformed', reason: `${where}: ${issue?.message ?? 'invalid'}`.slice(0, 120) };
  };
}

function typesOf(option: z.ZodObject): Iterable<string> {
  const literal = option.shape['type'] as z.ZodLiteral<string>; // the discriminator of every message is a literal
  return literal.values;
}

function typeOf(json: unknown): string | undefined {
  if (typeof json !== 'object' || json === null || !('type' in json)) return undefined;
  return typeof json.type === 'string' ? json.type : undefined;
}
