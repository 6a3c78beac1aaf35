import { z } from 'zod';
import { BackedUpSettings } from './kinds/backup.ts';
import type { BackupOf } from './kinds/backup.ts';
import type { DesiredOf, ObservedOf } from './kinds/kinds.ts';
import { DatabaseType } from './kinds/database.ts';
import { Name, Timestamp } from './kinds/fields.ts';
import type { ReadonlyResource } from './resource.ts';

const format = 'setpoint-backup/1';

/**
 * What lies beside the object of a backup in its bucket, for people and for another installation: what it is of, and how to
 * check it. It is written last, so that whoever finds it finds a whole backup.
 */
const Manifest = z
  .object({
    format: z.literal(format),
    id: z.uuid(),
    compression: z.literal('zstd'),
    size_bytes: z.int().min(1),
    dump_bytes: z.int().min(0),
    checksum_sha256: z.string().regex(/^[0-9a-f]{64}$/),
    started_at: Timestamp.optional(),
    finished_at: Timestamp,
  })
  .and(
    z.discriminatedUnion('method', [
      z.object({
        method: z.literal('logical'),
        database: z.object({ id: z.uuid(), name: Name, database_user: z.string(), database_name: z.string() }),
        engine: z.object({ type: DatabaseType, version: z.string(), image: z.string().optional() }),
        settings: BackedUpSettings.optional(),
      }),
      z.object({ method: z.literal('snapshot'), volume: z.object({ id: z.uuid(), name: Name }) }),
    ]),
  );

/** The longest manifest that is read, in bytes. */
export const maxManifestBytes = 64 * 1024;

export const manifestName = 'manifest.json';

export function manifestOf({ meta, desired }: ReadonlyResource<'backup'>, now: ObservedOf<'backup'>): string {
  const { of, name, method } = desired;
  const { changed_files, left_out, notes } = now;
  const { size_bytes, dump_bytes, checksum_sha256, started_at, finished_at } = now;
  const manifest = {
    format,
    id: meta.id,
    method,
    ...(of.kind === 'database'
      ? { database: { id: of.id, name, ...of.credentials }, engine: of.engine, settings: of.settings }
      : { volume: { id: of.id, name } }),
    compression: 'zstd',
    size_bytes,
    dump_bytes,
    checksum_sha256,
    changed_files,
    left_out,
    notes,
    ...now.log,
    started_at,
    finished_at,
  };
  return `${JSON.stringify(manifest, null, 2)}\n`;
}

/** A backup that a manifest describes. */
export interface DescribedBackup extends Pick<DesiredOf<'backup'>, 'of' | 'method' | 'name'> {
  id: string;
  found: Omit<NonNullable<DesiredOf<'backup'>['found']>, 'folder'>;
}

/** Reads what another installation may have written. `undefined`: it is no manifest of a backup that can be restored. */
export function describedBackup(text: string): DescribedBackup | undefined {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return undefined;
  }
  const { data } = Manifest.safeParse(json);
  if (data === undefined) return undefined;
  const { id, size_bytes, dump_bytes, checksum_sha256, started_at, finished_at } = data;
  const found = {
    size_bytes,
    dump_bytes,
    checksum_sha256,
    finished_at,
    ...(started_at !== undefined && { started_at }),
  };
  if (data.method === 'snapshot') {
    const { id: volume, name } = data.volume;
    return { id, method: data.method, name, of: { kind: 'volume', id: volume }, found };
  }
  const { id: database, name, ...credentials } = data.database;
  const { engine, settings } = data;
  const of: z.infer<typeof BackupOf> = {
    kind: 'database',
    id: database,
    engine,
    credentials,
    ...(settings !== undefined && { settings }),
  };
  return { id, method: data.method, name, of, found };
}
