import { z } from 'zod';
import { jsonEqual } from './json-equal.ts';

/** One thing that a state of a schema may have: a field, or a value of an enumeration. */
export interface Field {
  /** Its path, where `*` stands for every element; a value of an enumeration is `PATH=VALUE`. */
  readonly name: string;
  readonly path: readonly string[];
  /** Only a state with this value uses it; absent: a state with any value but `unset`. */
  readonly value?: string;
  /** The value that the schema gives to an absent field. */
  readonly unset?: unknown;
}

/** All that states of the schema may have, each once, a field before what is in it. */
export function fieldsOf(schema: z.core.$ZodType): readonly Field[] {
  const found = new Map<string, Field>();
  for (const field of walk(schema, [], undefined)) if (!found.has(field.name)) found.set(field.name, field);
  return [...found.values()];
}

function* walk(schema: z.core.$ZodType, path: readonly string[], unset: unknown): Generator<Field> {
  const name = path.join('.');
  if (schema instanceof z.ZodDefault) yield* walk(schema.def.innerType, path, schema.def.defaultValue);
  else if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable)
    yield* walk(schema.def.innerType, path, unset);
  else if (schema instanceof z.ZodUnion) for (const option of schema.options) yield* walk(option, path, unset);
  else if (schema instanceof z.ZodPipe) yield* walk(schema.def.out, path, unset);
  else {
    if (path.length > 0 && path.at(-1) !== '*') yield { name, path, ...(unset !== undefined && { unset }) };
    if (schema instanceof z.ZodObject)
      for (const [key, inner] of Object.entries(schema.def.shape)) yield* walk(inner, [...path, key], undefined);
    else if (schema instanceof z.ZodArray) yield* walk(schema.def.element, [...path, '*'], undefined);
    else if (schema instanceof z.ZodRecord) yield* walk(schema.def.valueType, [...path, '*'], undefined);
    else for (const value of valuesOf(schema)) yield { name: `${name}=${value}`, path, value };
  }
}

function valuesOf(schema: z.core.$ZodType): readonly string[] {
  if (schema instanceof z.ZodEnum) return schema.options.map(String);
  return schema instanceof z.ZodLiteral ? [...schema.values].map(String) : [];
}

/** Whether a state has what the field describes. */
export function uses(state: unknown, { path, value, unset }: Field): boolean {
  return has(state, path, (it) =>
    value === undefined ? it !== undefined && !jsonEqual(it, unset) : String(it) === value,
  );
}

function has(state: unknown, [segment, ...rest]: readonly string[], isUse: (it: unknown) => boolean): boolean {
  if (segment === undefined) return isUse(state);
  if (typeof state !== 'object' || state === null) return false;
  if (segment === '*') return Object.values(state).some((it) => has(it, rest, isUse));
  return has(Object.entries(state).find(([key]) => key === segment)?.[1], rest, isUse);
}
