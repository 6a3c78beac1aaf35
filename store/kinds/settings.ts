import { z } from 'zod';
import { defineKind } from './define.ts';

/** Who of the tenant may do something: every user, or its admins alone. */
export const Circle = z.enum(['users', 'admins']);
export type Circle = z.infer<typeof Circle>;

/** Who may open terminals of servers: admins as well, or superadmins alone. */
export const TerminalCircle = z.enum(['admins', 'superadmins']);
export type TerminalCircle = z.infer<typeof TerminalCircle>;

/** A registry as image references name it: `HOST`, `HOST:PORT`, or `*.HOST` for every host below one. Lower case. */
export const RegistryHost = z
  .string()
  .max(255)
  .regex(
    /^((\*\.)?[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*|\[[0-9a-f:.]+\])(:[0-9]{1,5})?$/,
    'Must be a registry such as ghcr.io, registry.example.com:5000 or *.example.com',
  );

/** An endpoint of S3: `HOST` or `HOST:PORT` in lower case, without the usual port of its scheme. */
export const EndpointHost = z
  .string()
  .max(255)
  .regex(
    /^([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*|\[[0-9a-f:.]+\])(:[0-9]{1,5})?$/,
    'Must be an endpoint such as s3.example.com or 10.0.0.7:9000',
  );

/** A bound of one scope; 0: the scope has no such bound of its own, only those of the scopes around it. */
const Bound = z.int().min(0).max(Number.MAX_SAFE_INTEGER);

/** What one scope may use. An absent field has its value of `defaultSettings`. */
export const Budget = z.object({
  /** Bytes in the store, records of controllers included. */
  stored_bytes: Bound.optional(),
  /** Bytes that requests write in a minute. */
  written_bytes_per_minute: Bound.optional(),
  /** Objects that requests create. */
  objects: Bound.optional(),
  /** Minutes of builds in 24 hours. */
  build_minutes_per_day: Bound.optional(),
});
export type Budget = z.infer<typeof Budget>;

/** The settings of a tenant, changed by superadmins. There is at most one such object, with the id `settingsId`. */
export const settings = defineKind({
  kind: 'settings',
  version: 1,
  desired: z.object({
    /** Who may create projects. */
    project_creation: Circle.optional(),
    /** Who may invite addresses without an account to a project, and so into the tenant. */
    new_addresses: Circle.optional(),
    /** Who may open terminals of servers. */
    server_terminals: TerminalCircle.optional(),
    /** Registries that images may come from. */
    registries: z.array(RegistryHost).max(200).optional(),
    /** Endpoints of backup destinations that may be on this machine, in a private network, or asked by plain HTTP. */
    backup_endpoints: z.array(EndpointHost).max(100).optional(),
    budgets: z.object({ project: Budget, user: Budget, tenant: Budget }).partial().default({}),
  }),
  observed: z.object({}),
  keep: { untilDeleted: 'A tenant has at most one' },
});

/** Id of the one object of the kind in a tenant. */
export const settingsId = 'tenant';
