import { z } from 'zod';
import { makers } from './origin.ts';

/** What is possible without stopping what runs; the worst of what was found decides. */
const Possible = z.enum(['yes', 'with_a_stop', 'no']).meta({
  description:
    'yes: beside what runs, which is stopped once the new one serves. with_a_stop: what runs must stop first. no: not as it is',
});

const Found = z.object({ code: z.string().meta({ description: 'Stable: programs know it' }), message: z.string() });

const ApplicationManifest = z.object({
  name: z.string(),
  server_id: z.string(),
  app_type: z.enum(['web', 'worker']),
  source_type: z.literal('image'),
  image_url: z.string(),
  replicas: z.int(),
  restart_policy: z.enum(['always', 'on-failure', 'no']),
  exposed_port: z.int().optional(),
  healthcheck_path: z.string().optional(),
  start_command: z.string().optional(),
  memory_limit: z.string().optional(),
  cpu_limit: z.string().optional(),
});
export type ApplicationManifest = z.infer<typeof ApplicationManifest>;

const VolumeManifest = z.object({ name: z.string(), server_id: z.string() });

const common = {
  name: z.string().meta({ description: 'Unique among the entries of its kind' }),
  from: z.object({
    made_by: z.enum(makers).nullable(),
    group: z.string().nullable(),
    containers: z.array(z.string()).meta({ description: 'Names' }),
    volume: z.string().nullable().meta({ description: 'Name at the container engine' }),
  }),
  possible: Possible,
  why: z.array(Found).meta({ description: 'Why it is not possible, or not without a stop' }),
  notes: z.array(Found).meta({ description: 'What changes by it' }),
  steps: z
    .array(z.string())
    .meta({ description: 'What to do by hand, in this order; empty if it is not possible. `take` does most of it' }),
};

const Mounted = z.object({
  volume: z.string().meta({ description: 'Name of the entry' }),
  path: z.string(),
  read_only: z.boolean(),
});

/** One thing that the plan would make. */
export const PlanEntry = z
  .object({
    kind: z.enum(['application', 'database', 'volume']).meta({
      description: 'A database is no kind of its own: its manifest is that of an application',
    }),
    ...common,
    env: z.array(z.string()).meta({
      description: 'Names of the variables to set. Their values stay on the server: they are in no answer',
    }),
    mounts: z.array(Mounted).meta({ description: 'Volumes to bind, before it is deployed' }),
    manifest: z
      .object({ ...ApplicationManifest.partial().shape, ...VolumeManifest.shape })
      .nullable()
      .meta({
        description:
          'The body of POST /applications or POST /volumes, without project_id and env; null if it is not possible',
      }),
  })
  .meta({ id: 'AdoptionEntry' });
export type PlanEntry = z.infer<typeof PlanEntry>;

/** What belongs together on a server. */
export const FoundGroup = z
  .object({
    name: z.string(),
    made_by: z.enum(makers),
    containers: z.array(
      z.object({
        id: z.string(),
        name: z.string(),
        service: z.string(),
        image: z.string(),
        state: z.string(),
        started_at: z.string().nullable(),
        ports: z.array(z.object({ port: z.int(), protocol: z.string(), server_port: z.int(), address: z.string() })),
        volumes: z.array(z.string()),
        networks: z.array(z.string()),
      }),
    ),
  })
  .meta({ id: 'AdoptionGroup' });
export type FoundGroup = z.infer<typeof FoundGroup>;

export const FoundVolume = z
  .object({
    name: z.string(),
    driver: z.string(),
    bytes: z.int().nullable().meta({ description: 'null: it was not measured' }),
    used_by: z.array(z.string()).meta({ description: 'Names of containers' }),
  })
  .meta({ id: 'AdoptionVolume' });
export type FoundVolume = z.infer<typeof FoundVolume>;

/** An object that was made of an entry of the plan. */
export const Taken = z
  .object({
    kind: PlanEntry.shape.kind,
    name: z.string(),
    id: z.string().meta({ description: 'That of an application or a volume: a database is an application' }),
    deployment_id: z.string().nullable(),
  })
  .meta({ id: 'AdoptionTaken' });
export type Taken = z.infer<typeof Taken>;
