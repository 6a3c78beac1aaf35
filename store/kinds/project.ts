import { z } from 'zod';
import { Declarations, ofDeclarations } from './declarations.ts';
import { defineKind } from './define.ts';
import { Color, Id, Name, Sealed } from './fields.ts';

export const LifePhase = z.enum(['active', 'deleting']);

export const project = defineKind({
  kind: 'project',
  version: 1,
  desired: z.object({
    name: Name,
    display_name: z.string().max(120).optional(),
    description: z.string().max(2000).optional(),
    color: Color.optional(),
    single_server_mode: z.boolean().default(false),
    default_server_id: Id.optional(),
    auto_error_tracking_enabled: z.boolean().default(false),
    owner_id: Id,
    default_environment_id: Id,
    /** Address of the icon, whose bytes lie beside the records; another icon has another address. */
    icon_path: z.string().optional(),
  }),
  observed: z.object({ phase: LifePhase }),
  unique: (d) => [{ scope: 'all', name: d.name }],
  indexes: { owner: (d) => d.owner_id, default_server: (d) => d.default_server_id },
  populates: { server: 'default_server', user: 'owner' },
  bytes: true,
  finalizers: ['project'],
  keep: { untilDeleted: 'A user deletes it' },
});

/** What has data that a clone copies. */
const ClonedData = z.object({ kind: z.enum(['database', 'volume']), id: Id });
export type ClonedData = z.infer<typeof ClonedData>;

/** Most environments of one project. */
export const maxEnvironments = 100;

export const environment = defineKind({
  kind: 'environment',
  version: 1,
  /** Only the API acts on declarations, and a leader without an authority issues nothing. */
  ignorable: [
    ...ofDeclarations,
    'authority',
    'authority.certificate',
    'authority.key',
    'authority.key.$sealed',
    'authority.key.for',
  ],
  desired: z.object({
    project_id: Id,
    name: Name,
    declarations: Declarations,
    /** Issues the certificates of its databases; absent: none has needed one yet. */
    authority: z
      .object({
        /** In PEM. */
        certificate: z.string(),
        /** In PEM. Sealed for `authority.key`. */
        key: Sealed,
      })
      .optional(),
    display_name: z.string().max(120).optional(),
    type: z.string().max(50).default('production'),
    description: z.string().max(2000).optional(),
    color: Color.optional(),
    git_branch: z.string().max(200).optional(),
    /** Present on a clone: the environment that it began as a copy of. */
    clone_of: z
      .object({
        environment_id: Id,
        /** Server of a source → server of its copy; others stay where they are. */
        server_map: z.record(Id, Id).default({}),
        /** Whether it has all that its source had at one revision. Stays true; from then on the two are independent. */
        complete: z.boolean().default(false),
        /** Data goes into its copies, too, by way of a bucket; absent: they begin empty. */
        data: z
          .object({
            destination_id: Id,
            /** Databases and volumes of its source whose data is to come; absent: not yet known, as it is not complete. */
            left: z.array(ClonedData).optional(),
            /** How many there were. */
            total: z.int().default(0),
            /** What could not be copied, as sentences. */
            failed: z.array(z.string()).default([]),
          })
          .optional(),
      })
      .optional(),
  }),
  observed: z.object({ phase: LifePhase }),
  unique: (d) => [{ scope: d.project_id, name: d.name }],
  owners: (d) => [{ kind: 'project', id: d.project_id, blocks: true }],
  indexes: { project: (d) => d.project_id },
  populates: { project: 'project' },
  finalizers: ['environment'],
  keep: { untilDeleted: 'A user deletes it, or it goes with its project' },
});
