import { z } from 'zod';
import { application } from './application.ts';
import { database } from './database.ts';
import { Declarations } from './declarations.ts';
import { defineKind } from './define.ts';
import { Id, Name, Sealed } from './fields.ts';
import { functionKind } from './function.ts';
import { TemplateVariableType } from './template.ts';
import { volume } from './volume.ts';

/** `degraded`: all of it was up once, and a part is not any more. `failed`: a part of it cannot be brought up. */
export const TemplateInstancePhase = z.enum(['pending', 'deploying', 'running', 'degraded', 'failed', 'deleting']);
export type TemplateInstancePhase = z.infer<typeof TemplateInstancePhase>;

/** Most instances of one project. */
export const maxInstances = 200;

/** Most bytes of the states of all children, as JSON. */
export const maxChildrenBytes = 512 * 1024;

/** Most former revisions that can be returned to, and most bytes of them all and the present text, as JSON. */
export const maxFormers = 10;
export const maxRevisionBytes = 384 * 1024;

/** What becomes of fields that somebody changed by hand: shown, changed back, or not looked at. */
export const DriftPolicy = z.enum(['warn', 'correct', 'ignore']);
export type DriftPolicy = z.infer<typeof DriftPolicy>;

/** Most fields changed by hand that are listed. */
export const maxDrift = 50;

const child = {
  id: Id,
  /** What the template calls it. */
  key: z.string(),
  /** Children of a wave are made once all of the waves before are up. */
  wave: z.int().min(0),
  labels: z.record(z.string(), z.string()).optional(),
  /** Fields that the template declares, by their names in the API; absent: an earlier release made it. */
  declared: z.array(z.string()).max(60).optional(),
  /** The revision of the instance that it is of; absent: it is as it was first declared. */
  revision: z.int().optional(),
  /** Leaves of its state that this revision writes into the object, and what earlier ones had still to write. */
  changes: z.array(z.string()).max(2000).optional(),
};

/** What an instance makes, as it is when it is made. From then on it is an object like any other. */
export const InstanceChild = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('volume'), ...child, desired: volume.desired }),
  z.object({ kind: z.literal('database'), ...child, desired: database.desired }),
  z.object({ kind: z.literal('application'), ...child, desired: application.desired }),
  z.object({ kind: z.literal('function'), ...child, desired: functionKind.desired }),
]);
export type InstanceChild = z.infer<typeof InstanceChild>;
export type InstanceChildKind = InstanceChild['kind'];

const Values = z.record(
  z.string(),
  z.object({
    type: TemplateVariableType,
    value: Sealed,
    generated: z.literal(true).optional(),
    /** It is the default of the template. */
    default: z.literal(true).optional(),
  }),
);

/** What it takes to declare a revision anew. */
const declaration = {
  /** It may be gone. */
  template_id: Id,
  template_name: Name,
  template_version: z.string().optional(),
  /** The values of variables, each sealed for `variables.<name>`. */
  variables: Values,
};

const Former = z.object({
  revision: z.int(),
  ...declaration,
  /** Absent: the text of the revision after it. */
  content: z.string().optional(),
  /** When another one took its place. */
  until: z.iso.datetime({ offset: true }),
});
export type Former = z.infer<typeof Former>;

const Drift = z.object({
  /** Of the child. */
  id: Id,
  field: z.string(),
  /** `null`: a secret, or nothing. */
  declared: z.union([z.string(), z.number(), z.boolean(), z.null()]),
  live: z.union([z.string(), z.number(), z.boolean(), z.null()]),
});
export type Drift = z.infer<typeof Drift>;

/** What was made of a template in an environment: it owns its children, and goes with them. */
export const templateInstance = defineKind({
  kind: 'template_instance',
  version: 1,
  desired: z.object({
    project_id: Id,
    environment_id: Id,
    server_id: Id,
    declarations: Declarations,
    name: Name,
    ...declaration,
    /** Its text; absent: an earlier release made it. */
    content: z.string().optional(),
    /** Counts its changes; absent: 1. */
    revision: z.int().optional(),
    /** The newest first. */
    formers: z.array(Former).max(maxFormers).optional(),
    /** Absent: warn. */
    drift: DriftPolicy.optional(),
    children: z.array(InstanceChild).min(1).max(50),
    requested_by: Id,
    /** Of its deletion: volumes and databases stay, and belong to nobody. */
    keep_data: z.literal(true).optional(),
  }),
  observed: z.object({
    phase: TemplateInstancePhase,
    /** Ids of children that were there: one that is gone was deleted, and is not made anew. */
    made: z.array(Id).max(50).default([]),
    /** All of its children were up once. */
    completed: z.literal(true).optional(),
    /** The revisions that children were brought to, by their ids; absent: the first. */
    applied: z.record(z.string(), z.int()).optional(),
    /** The newest revision of which all was up; absent: none, or the first. */
    completed_revision: z.int().optional(),
    drift: z.array(Drift).max(maxDrift).optional(),
  }),
  unique: (d) => [{ scope: d.environment_id, name: d.name }],
  owners: (d) => [{ kind: 'environment', id: d.environment_id, blocks: true }],
  populates: { environment: 'environment', server: 'server', project: 'project' },
  indexes: {
    project: (d) => d.project_id,
    environment: (d) => d.environment_id,
    server: (d) => d.server_id,
    template: (d) => d.template_id,
  },
  clone: {
    never: 'Its children are copied as what they are: the copies belong to nobody, and each can be changed and deleted',
  },
  finalizers: ['template_instance'],
  keep: { untilDeleted: 'A user deletes it, or it goes with its environment' },
});
