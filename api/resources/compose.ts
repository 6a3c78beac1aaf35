import { z } from 'zod';
import type { Composition } from '../../compose/parse.ts';
import {
  ComposedHealthcheck,
  ComposedMount,
  DependencyCondition,
  maxComposeBytes,
} from '../../store/kinds/composed-service.ts';
import { EnvValues, RelativePath } from './fields.ts';

export const ComposeCheck = z.strictObject({
  content: z
    .string()
    .max(maxComposeBytes)
    .meta({ description: `A compose file, at most ${maxComposeBytes / 1024} KiB` }),
  env: EnvValues.optional().meta({ description: 'Variables of the application: the file can use no others' }),
  in_repository: z.boolean().optional().meta({
    description: 'The file is in a git repository, so that services can be built of it and be given files of it',
  }),
  compose_path: RelativePath.optional().meta({
    description: 'Where the file is in its repository: its paths begin in the folder of it. Absent: the topmost folder',
  }),
});

const ComposeFinding = z
  .object({
    path: z.string().meta({ description: 'Such as services.web.ports.0; empty for the file as a whole' }),
    key: z.string(),
    line: z.int(),
    column: z.int(),
    message: z.string(),
  })
  .meta({ id: 'ComposeFinding' });

/** A service as it would run, without the values of its variables. */
const ComposeService = z
  .object({
    name: z.string(),
    image: z.string().nullable().meta({ description: 'null: it is built' }),
    build: z.object({ context: z.string(), dockerfile_path: z.string(), target: z.string().nullable() }).nullable(),
    entrypoint: z.array(z.string()).nullable(),
    command: z.array(z.string()).nullable(),
    env: z.array(z.string()).meta({ description: 'Names of its variables' }),
    env_files: z.array(z.string()),
    ports: z.array(z.object({ port: z.int(), publish: z.int().nullable() })),
    mounts: z.array(ComposedMount),
    files: z.array(z.string()).meta({ description: 'Paths of the files that it is given' }),
    depends_on: z.array(z.object({ service: z.string(), condition: DependencyCondition })),
    healthcheck: ComposedHealthcheck.nullable(),
    restart_policy: z.enum(['always', 'on-failure', 'no']),
    replicas: z.int(),
    memory_bytes: z.int().nullable(),
    nano_cpus: z.int().nullable(),
    networks: z.array(z.object({ name: z.string(), aliases: z.array(z.string()) })),
  })
  .meta({ id: 'ComposeService' });

export const ComposeReport = z
  .object({
    valid: z.boolean(),
    errors: z.array(ComposeFinding).meta({ description: 'What is refused, by its key; at most 100' }),
    warnings: z.array(ComposeFinding).meta({ description: 'What means something else here; at most 100' }),
    services: z.array(ComposeService).meta({ description: 'Empty unless the file is valid' }),
    volumes: z.array(z.string()),
    networks: z.array(z.string()),
  })
  .meta({ id: 'ComposeReport' });
export type ComposeReport = z.infer<typeof ComposeReport>;

export function toComposeReport({ services, volumes, networks, errors, warnings }: Composition): ComposeReport {
  const valid = errors.length === 0;
  return {
    valid,
    errors: [...errors],
    warnings: [...warnings],
    services: valid ? services.map(toService) : [],
    volumes: [...volumes],
    networks: [...networks],
  };
}

function toService(it: Composition['services'][number]): ComposeReport['services'][number] {
  const { build } = it;
  return {
    name: it.name,
    image: it.image ?? null,
    build:
      build === undefined
        ? null
        : { context: build.context, dockerfile_path: build.dockerfile_path, target: build.target ?? null },
    entrypoint: it.entrypoint ?? null,
    command: it.command ?? null,
    env: Object.keys(it.env),
    env_files: it.env_files.map(({ path }) => path),
    ports: it.ports.map(({ port, publish }) => ({ port, publish: publish ?? null })),
    mounts: it.mounts,
    files: it.files.map(({ path }) => path),
    depends_on: it.depends_on,
    healthcheck: it.healthcheck ?? null,
    restart_policy: it.restart_policy,
    replicas: it.replicas,
    memory_bytes: it.limits.memory_bytes ?? null,
    nano_cpus: it.limits.nano_cpus ?? null,
    networks: it.networks,
  };
}
