import { z } from 'zod';
import { defineKind } from './define.ts';
import { Id, Name, Sealed } from './fields.ts';

/** What servers pull images of one private registry with. */
export const registry = defineKind({
  kind: 'registry',
  version: 1,
  /** Only the API and the gateway act on it. */
  ignorable: true,
  desired: z.object({
    name: Name,
    description: z.string().max(2000).optional(),
    /** `HOST` or `HOST:PORT` in lower case, as images name it; `docker.io` for the default one. */
    address: z.string(),
    username: z.string(),
    /** Sealed for `password`. */
    password: Sealed,
    /** Projects that may use it; absent: all. */
    allowed_projects: z.array(Id).max(1000).optional(),
  }),
  observed: z.object({}),
  unique: (d) => [{ scope: 'all', name: d.name }],
  keep: { untilDeleted: 'An admin of the tenant deletes it, once no application uses it' },
});
