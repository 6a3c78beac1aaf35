import { z } from 'zod';
import { application } from './application.ts';
import { database } from './database.ts';
import { defineKind } from './define.ts';
import { Id, Name, Sealed } from './fields.ts';
import { TemplateVariableType } from './template.ts';
import { volume } from './volume.ts';

/** `degraded`: all of it was up once, and a part is not any more. `failed`: a part of it cannot be brought up. */
export const TemplateInstancePhase = z.enum(['pending', 'deploying', 'running', 'degraded', 'failed', 'deleting']);
export type TemplateInstancePhase = z.infer<typeof TemplateInstancePhase>;

/** Most instances of one project. */
export const maxInstances = 200;

/** Most bytes of the states of all children, as JSON. */
export const maxChildrenBytes = 512 * 1024;

const child = {
  id: Id,
  /** What the template calls it. */
  key: z.string(),
  /** Children of a wave are made once all of the waves before are up. */
  wave: z.int().min(0),
  labels: z.record(z.string(), z.string()).optional(),
};

/** What an instance makes, as it is when it is made. From then on it is an object like any other. */
export const InstanceChild = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('volume'), ...child, desired: volume.desired }),
  z.object({ kind: z.literal('database'), ...child, desired: database.desired }),
  z.object({ kind: z.literal('application'), ...child, desired: application.desired }),
]);
export type InstanceChild = z.infer<typeof InstanceChild>;
export type InstanceChildKind = InstanceChild['kind'];

/** What was made of a template in an environment: it owns its children, and goes with them. */
export const templateInstance = defineKind({
  kind: 'template_instance',
  version: 1,
  desired: z.object({
    project_id: Id,
    environment_id: Id,
    server_id: Id,
    name: Name,
    /** It may be gone. */
    template_id: Id,
    template_name: Name,
    /** The values that it was made with, each sealed for `variables.<name>`. */
    variables: z.record(
      z.string(),
      z.object({ type: TemplateVariableType, value: Sealed, generated: z.literal(true).optional() }),
    ),
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
