import { z } from 'zod';
import { isObserved } from '../../store/definition.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import type { ReadonlyResource } from '../../store/resource.ts';

/** A reference in a body or query. It may be any UUID, so that an unknown one gives "not found" and not "malformed". */
export const Reference = z
  .guid()
  .transform((id) => id.toLowerCase())
  .meta({ override: { type: 'string', format: 'uuid' } });

/** Fields of a body that name the place of a new workload; `placeFrom` finds it. */
export const placeFields = {
  project_id: Reference,
  environment_id: Reference.nullish(),
  server_id: Reference.nullish(),
};
export type PlaceFields = z.infer<z.ZodObject<typeof placeFields>>;

const ConditionFields = z
  .object({
    type: z.string(),
    status: z.enum(['true', 'false', 'unknown']),
    reason: z.string(),
    message: z.string(),
    observed_generation: z.int(),
    last_transition_at: z.string(),
  })
  .meta({ id: 'Condition' });

/** Fields that every object has. */
export const objectFields = {
  id: z.string(),
  generation: z.int(),
  observed_generation: z.int().meta({
    description: 'Generation that the controller has seen; 0 before the first; of what has none, `generation`',
  }),
  resource_version: z.string(),
  labels: z.record(z.string(), z.string()),
  conditions: z.array(ConditionFields),
  created_at: z.string(),
  updated_at: z.string(),
};

type ObjectFields = { [F in keyof typeof objectFields]: z.infer<(typeof objectFields)[F]> };

export function objectFieldsOf(it: ReadonlyResource<KindName>): ObjectFields {
  const { meta, observed } = it;
  return {
    id: meta.id,
    generation: meta.generation,
    observed_generation: observed?.observedGeneration ?? (isObserved(meta.kind) ? 0 : meta.generation),
    resource_version: String(meta.desiredRevision),
    labels: meta.labels,
    conditions: (observed?.conditions ?? []).map((condition) => ({
      type: condition.type,
      status: condition.status,
      reason: condition.reason,
      message: condition.message,
      observed_generation: condition.observedGeneration,
      last_transition_at: condition.changedAt,
    })),
    created_at: meta.createdAt,
    updated_at: meta.updatedAt,
  };
}

/** Labels that a client may set: at most 32, with keys and values of at most 63 characters. `null`: none. */
export const Labels = z
  .record(
    z
      .string()
      .regex(/^[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?$/, 'Must be a label key such as team or app/tier'),
    z.string().regex(/^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$/, 'Must be a label value such as blue'),
  )
  .refine((labels) => Object.keys(labels).length <= 32, 'Must have at most 32 labels')
  .refine((labels) => !Object.keys(labels).some((key) => key.startsWith('setpoint')), 'Labels of setpoint are reserved')
  .nullable()
  .transform((labels) => labels ?? {});

/** The fields of an answer that a PUT may carry without effect: all that are not writable. */
export function readOnlyFields(answer: Pick<z.ZodObject, 'shape'>, body: Pick<z.ZodObject, 'shape'>): string[] {
  return Object.keys(answer.shape).filter((name) => !Object.hasOwn(body.shape, name));
}

/** Sets a field that was sent: `null` clears it, `undefined` leaves it. */
export function assign<D extends object, F extends keyof D>(draft: D, field: F, value: D[F] | null | undefined): void {
  if (value === undefined) return;
  if (value === null) delete draft[field];
  else draft[field] = value;
}

/** Sends a field without a value as `null`, so that every answer has every field. */
export function orNull<T extends object>(fields: T): { [F in keyof T]: Exclude<T[F], undefined> | null } {
  // Object.entries loses the types of the keys
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, value ?? null])) as {
    [F in keyof T]: Exclude<T[F], undefined> | null;
  };
}

/** Leaves out fields that were not sent or are `null`. */
export function given<T extends object>(fields: T): { [F in keyof T]?: NonNullable<T[F]> } {
  // Object.entries loses the types of the keys; the remaining values are not null
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== null)) as {
    [F in keyof T]?: NonNullable<T[F]>;
  };
}
