import { z } from 'zod';

/** Field schemas that several kinds share. */
export const Id = z.uuid();
export const Timestamp = z.iso.datetime({ offset: true });
/** An instant as a client writes it, with any offset; the output is in UTC. */
export const UtcTime = Timestamp.transform(utc);
export const Sealed = z.object({ $sealed: z.string(), for: z.string() });

/**
 * What a reference of a variable stands for: text, or text around a secret of another object, which is opened only for the
 * agent. `isInUrl`: the secret is percent-encoded.
 */
export const Resolved = z.union([
  z.string(),
  z.object({ before: z.string(), secret: Sealed, after: z.string(), isInUrl: z.boolean() }),
]);
export type Resolved = z.infer<typeof Resolved>;

/** Arguments of a build by name. Earlier releases stored them in plain text: those are sealed when they are found. */
export const BuildArgs = z.record(z.string(), z.union([Sealed, z.string()]));
export type BuildArgs = z.infer<typeof BuildArgs>;

/** 1–100 printable characters, no control characters, no leading or trailing space. */
export const Name = z
  .string()
  .min(1)
  .max(100)
  .regex(/^[^\p{C}\s]([^\p{C}]*[^\p{C}\s])?$/u, 'Must be printable, without leading or trailing space');

export const Color = z.string().regex(/^#[0-9a-fA-F]{6}$/, 'Must be a colour such as #1f6feb');
export const Port = z.int().min(1).max(65535);

/** An instant in UTC, however it was written. */
export function utc(text: string): string {
  return new Date(text).toISOString();
}
