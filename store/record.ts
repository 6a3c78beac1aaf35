import { z } from 'zod';
import type { KindDefinition } from './kinds/define.ts';
import { plainCopy } from './plain-copy.ts';
import { Condition, CopyOf, OwnerRef } from './resource.ts';
import type { Meta, Observed, ReadonlyResource, Resource } from './resource.ts';

/**
 * The form of records in the store, and what happens between versions of the program.
 *
 * 1. A record older than its kind passes through the kind's upgrades when it is read; it is stored in the new form by
 *    its next write.
 * 2. A record newer than its kind is read as far as it is understood.
 * 3. What is not understood survives a rewrite, and so does the newer version number: a replica that was rolled back
 *    erases nothing. For this, the part of a record that a decoded state does not show is remembered beside the state.
 */

/** The part of an object that lies under its `d/` key. */
export interface DesiredRecord<D> {
  meta: Omit<Meta, 'tenant' | 'kind' | 'id' | 'desiredRevision' | 'createdRevision' | 'observedRevision'>;
  desired: D;
}

/** The parts of a kind's declaration that its records need. */
export type Codec<D, O> = KindDefinition<string, z.ZodType<D>, z.ZodType<O>>;
type JsonObject = Record<string, unknown>;

const State = z.record(z.string(), z.unknown());

const DesiredEnvelope = z.looseObject({
  v: z.int().min(0),
  generation: z.int().min(1),
  createdAt: z.string(),
  updatedAt: z.string(),
  deletionRequestedAt: z.string().optional(),
  finalizers: z.array(z.string()),
  owners: z.array(OwnerRef),
  labels: z.record(z.string(), z.string()),
  copyOf: CopyOf.optional(),
  desired: State,
});

const ObservedEnvelope = z.looseObject({
  v: z.int().min(0),
  observedGeneration: z.int(),
  conditions: z.array(Condition),
  observed: State,
});

/** Fields of an object that its schema does not know, at every depth. */
interface UnknownFields {
  own: JsonObject;
  nested: Record<string, UnknownFields>;
}

/** What a decoded state leaves out of its record. */
interface Remainder {
  v: number;
  envelope: JsonObject;
  state: UnknownFields | undefined;
}

const remainders = new WeakMap<object, Remainder>();

/** Makes `to` the successor of the decoded state `from`: its record keeps the fields unknown to this version. */
export function succeed(from: object | undefined, to: object): void {
  const remainder = from && remainders.get(from);
  if (remainder) remainders.set(to, remainder);
}

/** A copy that may be changed; it keeps the fields of its records that this version does not know. */
export function cloneResource(it: ReadonlyResource): Resource {
  const copy = plainCopy<Resource>(it);
  succeed(it.desired, copy.desired);
  if (copy.observed) succeed(it.observed, copy.observed);
  return copy;
}

/** @throws SyntaxError or ZodError if the text is no record of that kind. */
export function decodeDesired<D, O>(definition: Codec<D, O>, text: string): DesiredRecord<D> {
  const { v, desired: stored, ...envelope } = DesiredEnvelope.parse(JSON.parse(text));
  const raw = upgraded(definition, v, stored);
  const desired = definition.desired.parse(raw);
  const { generation, createdAt, updatedAt, deletionRequestedAt, finalizers, owners, labels, copyOf, ...unknown } =
    envelope;
  remember(desired, { v, envelope: unknown, state: unknownFields(raw, desired) }, definition.version);
  const meta = {
    generation,
    createdAt,
    updatedAt,
    ...(deletionRequestedAt !== undefined && { deletionRequestedAt }),
    finalizers,
    owners: owners as Meta['owners'], // an owner of a kind that a newer version added is kept, and never found
    labels,
    ...(copyOf !== undefined && { copyOf }),
  };
  return { meta, desired };
}

export function encodeDesired<D, O>(definition: Codec<D, O>, record: DesiredRecord<D>): string {
  const { generation, createdAt, updatedAt, deletionRequestedAt, finalizers, owners, labels, copyOf } = record.meta;
  const remainder = remainderOf(record.desired);
  return JSON.stringify({
    v: Math.max(definition.version, remainder?.v ?? 0),
    generation,
    createdAt,
    updatedAt,
    deletionRequestedAt,
    finalizers,
    owners,
    labels,
    copyOf,
    desired: withUnknown(record.desired, remainder?.state),
    ...remainder?.envelope,
  });
}

/** Observed state has no upgrades: its writer derives it anew. @throws SyntaxError or ZodError */
export function decodeObserved<D, O>(definition: Codec<D, O>, text: string): Observed<O> {
  const { v, observedGeneration, conditions, observed: raw, ...unknown } = ObservedEnvelope.parse(JSON.parse(text));
  const state = definition.observed.parse(raw);
  const observed = { ...state, observedGeneration, conditions };
  remember(observed, { v, envelope: unknown, state: unknownFields(raw, state) }, definition.version);
  return observed;
}

export function encodeObserved<D, O>(definition: Codec<D, O>, value: Observed<O>): string {
  const { observedGeneration, conditions, ...observed } = value;
  const remainder = remainderOf(value);
  return JSON.stringify({
    v: Math.max(definition.version, remainder?.v ?? 0),
    observedGeneration,
    conditions,
    observed: withUnknown(observed, remainder?.state),
    ...remainder?.envelope,
  });
}

function upgraded<D, O>(definition: Codec<D, O>, from: number, stored: JsonObject): JsonObject {
  let state = stored;
  for (let version = from; version < definition.version; version++) {
    const upgrade = definition.upgrade?.[version];
    if (!upgrade) throw new Error(`Cannot read a ${definition.kind} of version ${version} as it has no upgrade`);
    state = upgrade(state);
  }
  return state;
}

function remainderOf(state: unknown): Remainder | undefined {
  return isObject(state) ? remainders.get(state) : undefined;
}

function remember(state: unknown, remainder: Remainder, version: number): void {
  const nothing = remainder.v <= version && !remainder.state && Object.keys(remainder.envelope).length === 0;
  if (!nothing && isObject(state)) remainders.set(state, remainder);
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function unknownFields(raw: JsonObject, parsed: unknown): UnknownFields | undefined {
  if (!isObject(parsed)) return undefined;
  let found: UnknownFields | undefined;
  for (const [key, value] of Object.entries(raw)) {
    if (!Object.hasOwn(parsed, key)) {
      found ??= { own: {}, nested: {} };
      found.own[key] = value;
    } else if (isObject(value)) {
      const inner = unknownFields(value, parsed[key]);
      if (inner) {
        found ??= { own: {}, nested: {} };
        found.nested[key] = inner;
      }
    }
  }
  return found;
}

function withUnknown(state: unknown, unknown: UnknownFields | undefined): unknown {
  if (!unknown || !isObject(state)) return state;
  const merged = { ...unknown.own, ...state };
  for (const [key, inner] of Object.entries(unknown.nested)) {
    if (merged[key] !== undefined) merged[key] = withUnknown(merged[key], inner);
  }
  return merged;
}
