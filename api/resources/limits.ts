import { z } from 'zod';

const bounds = {
  stored_bytes: z.int().meta({ description: 'Bytes in the store, with what controllers wrote of it' }),
  written_bytes_per_minute: z.int().meta({ description: 'Bytes that requests write in a minute' }),
  objects: z.int().meta({ description: 'Objects that requests made' }),
  build_minutes_per_day: z.int().meta({ description: 'Minutes of builds in 24 hours' }),
};

const Used = z.object(bounds).meta({ id: 'Used' });
const Allowed = z
  .object({
    stored_bytes: bounds.stored_bytes.nullable(),
    written_bytes_per_minute: bounds.written_bytes_per_minute.nullable(),
    objects: bounds.objects.nullable(),
    build_minutes_per_day: bounds.build_minutes_per_day.nullable(),
  })
  .meta({ id: 'Allowed', description: 'null: there is no such bound' });

/** The use of one scope and its bounds. */
export const ScopeLimits = z
  .object({
    scope: z.enum(['installation', 'tenant', 'user', 'project']),
    id: z.string().nullable().meta({ description: 'Of the user or project' }),
    name: z.string().nullable().meta({ description: 'Address of the user, name of the project' }),
    used: Used,
    allowed: Allowed,
  })
  .meta({ id: 'ScopeLimits' });
export type ScopeLimits = z.infer<typeof ScopeLimits>;

export const Limits = z
  .object({
    scopes: z.array(ScopeLimits).meta({
      description:
        'Oneself and the projects that one may see, of those the 100 that store most; for admins tenant and installation before them',
    }),
  })
  .meta({ id: 'Limits' });

export type Used = z.infer<typeof Used>;
export type Allowed = z.infer<typeof Allowed>;
