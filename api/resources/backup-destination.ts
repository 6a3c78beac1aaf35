import { z } from 'zod';
import { endpointOf } from '../../store/backup-endpoint.ts';
import { backupDestination, BackupProvider } from '../../store/kinds/backup-destination.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { backupDestinationVerbs } from '../../rules/backup-destination.ts';
import { Certificates } from './fields.ts';
import { Backup } from './backup.ts';
import { Labels, objectFields, objectFieldsOf, orNull, placeFields } from './object-fields.ts';
import { usedByEach } from './paging.ts';
import { defineResource } from './resource.ts';

type Destination = ReadonlyResource<'backup_destination'>;

/** What owners and admins of projects may see of a destination. */
const BackupDestinationSummary = z
  .object({ id: z.string(), name: z.string(), provider: BackupProvider })
  .meta({ id: 'BackupDestinationSummary' });

export const BackupDestination = z
  .object({
    ...objectFields,
    name: z.string(),
    provider: BackupProvider,
    bucket: z.string(),
    region: z.string(),
    endpoint: z.string().meta({ description: 'Where the bucket is asked: as given, or the usual one of the provider' }),
    account_id: z.string().nullable(),
    jurisdiction: z.string().nullable(),
    path_prefix: z.string().nullable().meta({ description: 'What all keys begin with' }),
    path_style: z
      .boolean()
      .meta({ description: 'The bucket is in the path of addresses, not in the name of the host' }),
    ca: z.string().nullable().meta({ description: 'Certificates in PEM of the authority of the endpoint' }),
    storage_class: z.string().nullable(),
    access_key: z.string().meta({ description: '**** and its last four characters' }),
    last_probe_at: z.string().nullable().meta({ description: 'null: it was not probed yet' }),
    status: z.enum(backupDestinationVerbs.states),
  })
  .meta({ id: 'BackupDestination' });
type BackupDestination = z.infer<typeof BackupDestination>;

const Endpoint = z
  .string()
  .max(300)
  .refine(isOrigin, 'Must be an address of scheme, host and perhaps port, such as https://s3.example.com')
  .transform((text) => new URL(text).origin)
  .meta({ override: { type: 'string' } });

function isOrigin(text: string): boolean {
  if (!URL.canParse(text) || /[\s\\@?#]/.test(text)) return false;
  const { protocol, pathname, hostname } = new URL(text);
  return (protocol === 'https:' || protocol === 'http:') && pathname === '/' && hostname !== '';
}

/** What a key of S3 can have: it is sent in a header. */
const Key = z.string().regex(/^[\x21-\x7e]+$/, 'Must be printable ASCII characters without space');

const fields = z.strictObject({
  name: backupDestination.desired.shape.name,
  provider: BackupProvider.meta({
    description: 'What is usual for endpoint, region and path_style; custom: any other product that speaks S3',
  }),
  bucket: z
    .string()
    .regex(
      /^(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/,
      'Must be a bucket: 3 to 63 small letters, digits, dots and hyphens',
    ),
  region: z
    .string()
    .regex(/^[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?$/, 'Must be a region such as eu-central-1')
    .nullish(),
  endpoint: Endpoint.nullish().meta({
    description:
      'Scheme, host and perhaps port; by http, on this machine or in a private network only if the settings name it',
  }),
  account_id: z
    .string()
    .regex(/^[0-9a-f]{32}$/, 'Must be the id of an account of r2: 32 hexadecimal digits')
    .nullish(),
  jurisdiction: z
    .string()
    .regex(/^[a-z]{2,16}$/, 'Must be a jurisdiction of r2, such as eu')
    .nullish(),
  path_prefix: z
    .string()
    .max(200)
    .regex(
      /^(?!\.{1,2}(\/|$))[A-Za-z0-9_.-]+(\/(?!\.{1,2}(\/|$))[A-Za-z0-9_.-]+)*$/,
      'Must be words of letters, digits, dots, hyphens and underscores, with single slashes between',
    )
    .nullish(),
  path_style: z.boolean().nullish(),
  ca: Certificates.nullish(),
  storage_class: z
    .string()
    .regex(/^[A-Z0-9_]{1,40}$/, 'Must be a storage class such as STANDARD_IA')
    .nullish(),
  access_key: Key.max(256),
  secret_key: Key.max(1024).meta({
    description: 'It is never shown again; needed anew with another endpoint, ca or access_key',
  }),
  labels: Labels.optional(),
});

export const BackupDestinationCreate = fields;
export const BackupDestinationUpdate = fields.partial();
export type BackupDestinationUpdate = z.infer<typeof BackupDestinationUpdate>;

export const BackupImport = z.strictObject({
  ...placeFields,
  after: z.string().max(2048).nullish().meta({ description: 'To go on: the `next` of the answer before' }),
});

export const BackupsImported = z
  .object({
    imported: z.array(Backup).meta({ description: 'They are completed once their objects were found, too' }),
    known: z.int().meta({ description: 'Backups that the tenant has already' }),
    skipped: z
      .array(
        z.object({
          manifest_key: z.string(),
          reason: z.enum(['not_readable', 'too_many', 'no_backups', 'of_another_project']),
        }),
      )
      .meta({
        description:
          'not_readable: no manifest of a dump or of a snapshot. too_many: what it is of has as many as it can have. no_backups: of an engine that none is taken of. of_another_project: what it is of is in another project',
      }),
    next: z.string().nullable().meta({ description: 'Send it as `after`; null: the bucket has no more' }),
  })
  .meta({ id: 'BackupsImported' });

/** The access key as it is shown. */
export function shownAccessKey({ access_key_end }: Pick<Destination['desired'], 'access_key_end'>): string {
  return `****${access_key_end}`;
}

/** What is shown of an access key: of a short one nothing. */
export function endOfAccessKey(key: string): string {
  return key.length < 12 ? '' : key.slice(-4);
}

function toBackupDestination(it: Destination): BackupDestination {
  const { desired, observed } = it;
  const { name, provider, bucket, account_id, jurisdiction, path_prefix, ca, storage_class } = desired;
  const at = endpointOf(desired);
  // what was stored had all its fields
  const { endpoint, region, pathStyle } = 'field' in at ? { endpoint: '', region: '', pathStyle: true } : at;
  return {
    ...objectFieldsOf(it),
    name,
    provider,
    bucket,
    region,
    endpoint,
    path_style: pathStyle,
    access_key: shownAccessKey(desired),
    status: statusOf(it),
    ...orNull({ account_id, jurisdiction, path_prefix, ca, storage_class, last_probe_at: observed?.probed_at }),
  };
}

function statusOf({ observed }: Destination): BackupDestination['status'] {
  return observed?.phase ?? 'pending';
}

export const backupDestinations = defineResource({
  kind: 'backup_destination',
  word: 'Backup destination',
  project: 'tenant',
  answer: BackupDestination,
  show: toBackupDestination,
  masked: {
    answer: BackupDestinationSummary,
    show: ({ meta, desired: { name, provider } }) => ({ id: meta.id, name, provider }),
  },
  list: {
    // what only admins see is no text to search: the number of hits would tell it
    texts: ({ desired }) => [desired.name, desired.provider],
    status: { values: backupDestinationVerbs.states, of: statusOf },
    filters: { projectId: usedByEach },
  },
  verbs: backupDestinationVerbs,
  isSettled: ({ meta, observed }) => observed?.phase !== undefined && observed.observedGeneration >= meta.generation,
  watch: { shows: {} },
});
