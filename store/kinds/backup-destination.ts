import { z } from 'zod';
import { defineKind } from './define.ts';
import { Name, Sealed, Timestamp } from './fields.ts';

/** Whose product a bucket is in: it decides what is known of the endpoint without being said. */
export const BackupProvider = z.enum(['s3', 'r2', 'minio', 'b2', 'wasabi', 'custom']);
export type BackupProvider = z.infer<typeof BackupProvider>;

/** `unreachable`: nothing but probes is sent to it. */
export const DestinationPhase = z.enum(['reachable', 'unreachable']);
export type DestinationPhase = z.infer<typeof DestinationPhase>;

/** A bucket that backups go to. `endpointOf` says where it is asked. */
export const backupDestination = defineKind({
  kind: 'backup_destination',
  version: 1,
  desired: z.object({
    name: Name,
    provider: BackupProvider,
    bucket: z.string(),
    /** Absent: the usual one of the provider. */
    region: z.string().optional(),
    /** Scheme, host and port, without a slash at the end; absent: the usual one of the provider. */
    endpoint: z.string().optional(),
    /** Of `r2` only. */
    account_id: z.string().optional(),
    jurisdiction: z.string().optional(),
    /** What all keys begin with, without a slash at either end. */
    path_prefix: z.string().optional(),
    /** Absent: as the provider is usually asked. */
    path_style: z.boolean().optional(),
    /** Certificates in PEM of the authority of the endpoint; absent: those that the control plane trusts. */
    ca: z.string().optional(),
    storage_class: z.string().optional(),
    /** Sealed for `access_key`. */
    access_key: Sealed,
    /** The last characters of the access key, for people to recognize it by. */
    access_key_end: z.string().max(4),
    /** Sealed for `secret_key`. */
    secret_key: Sealed,
  }),
  observed: z.object({
    /** Absent: no probe has told yet. */
    phase: DestinationPhase.optional(),
    probed_at: Timestamp,
    /** Probes in a row that found trouble. */
    failures: z.int().default(0),
    /** What the last probe found. */
    trouble: z.object({ code: z.string(), message: z.string() }).optional(),
    /** The clocks of the service and of the control plane differ. */
    is_clock_off: z.boolean().default(false),
  }),
  unique: (d) => [{ scope: 'all', name: d.name }],
  keep: { untilDeleted: 'An admin of the tenant deletes it, once nothing refers to it' },
});
