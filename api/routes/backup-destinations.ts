import { endpointOf } from '../../store/backup-endpoint.ts';
import type { z } from 'zod';
import { engines } from '../../databases/engines.ts';
import { describedBackup, manifestName, maxManifestBytes } from '../../store/backup-manifest.ts';
import type { DescribedBackup } from '../../store/backup-manifest.ts';
import { defined } from '../../store/defined.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import { objectsIn } from '../../store/objects-in.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { settingsOf } from '../../store/settings.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { defineEndpoint } from '../endpoint/endpoint.ts';
import { badField, conflicting } from '../ground/api-error.ts';
import type { BucketPlace } from '../ground/bucket-probe.ts';
import { backups } from '../resources/backup.ts';
import {
  BackupImport,
  BackupsImported,
  BackupDestination,
  BackupDestinationCreate,
  backupDestinations,
  BackupDestinationUpdate,
  endOfAccessKey,
  shownAccessKey,
} from '../resources/backup-destination.ts';
import { assign, given } from '../resources/object-fields.ts';
import { countLimits, requireRoom } from '../rights/count-limits.ts';
import { destinationKeys } from '../workloads/destination-keys.ts';
import { placeFrom } from '../workloads/place.ts';
import { holdPopulation, inWords } from '../workloads/population.ts';
import { getEndpoint, listEndpoint, updateEndpoint } from './resource-endpoints.ts';

type Destination = ReadonlyResource<'backup_destination'>;
type Desired = DesiredOf<'backup_destination'>;
type Keys = Pick<BucketPlace, 'accessKey' | 'secretKey'>;

export const listBackupDestinations = listEndpoint(
  backupDestinations,
  {
    path: '/settings/backup-destinations',
    summary: 'Where backups go; owners and admins of projects see name and provider',
  },
  ({ view }) => view.list('backup_destination'),
);

export const getBackupDestination = getEndpoint(backupDestinations, {
  path: '/settings/backup-destinations/:id',
  summary: 'A backup destination, and whether its bucket can be used',
});

export const createBackupDestination = defineEndpoint({
  method: 'POST',
  path: '/settings/backup-destinations',
  summary: 'Keep a bucket for backups, once an object was written, read, listed, deleted and uploaded in parts there',
  body: BackupDestinationCreate,
  response: BackupDestination,
  status: 201,
  heavy: true,
  settle: backupDestinations.settle,
  handle: async (ctx, { body }) => {
    requireRoom(ctx.view.list('backup_destination').length, countLimits.backupDestinationsPerTenant, {
      where: 'The tenant',
      what: 'backup destinations',
      remedy: 'delete one that nothing refers to',
    });
    const { name, provider, bucket, access_key: accessKey, secret_key: secretKey, labels } = body;
    const { region, endpoint, account_id, jurisdiction, path_prefix, path_style, ca, storage_class } = body;
    const plain = {
      name,
      provider,
      bucket,
      ...given({ region, endpoint, account_id, jurisdiction, path_prefix, path_style, ca, storage_class }),
    };
    const id = ctx.random.id();
    await requireUsable(ctx, id, plain, { accessKey, secretKey });
    const unit = ctx.repo.begin();
    const desired = { ...plain, ...sealed(ctx, id, { accessKey, secretKey }) };
    const it = unit.create('backup_destination', id, desired, defined({ labels }));
    return ctx.commit(unit, () => backupDestinations.answerOf(it, ctx.view));
  },
});

export const updateBackupDestination = updateEndpoint(
  backupDestinations,
  {
    path: '/settings/backup-destinations/:id',
    summary:
      'Change a backup destination, once the changed one could be used. Another endpoint, ca or access_key needs the secret key anew',
  },
  {
    body: BackupDestinationUpdate,
    heavy: true,
    change(draft, body) {
      // an answer that is sent back says what follows from other fields, too
      const shown = placeOf(draft);
      draft.provider = body.provider ?? draft.provider;
      draft.bucket = body.bucket ?? draft.bucket;
      if (body.endpoint !== shown.endpoint) assign(draft, 'endpoint', body.endpoint);
      if (body.region !== shown.region) assign(draft, 'region', body.region);
      if (body.path_style !== shown.pathStyle) assign(draft, 'path_style', body.path_style);
      assign(draft, 'account_id', body.account_id);
      assign(draft, 'jurisdiction', body.jurisdiction);
      assign(draft, 'path_prefix', body.path_prefix);
      assign(draft, 'ca', body.ca);
      assign(draft, 'storage_class', body.storage_class);
    },
    async check(ctx, unit, { it, changed, body }) {
      const [before, after] = [placeOf(it.desired), placeOf(changed.desired)];
      const accessKey = body.access_key === shownAccessKey(it.desired) ? undefined : body.access_key;
      const isElsewhere = before.endpoint !== after.endpoint || it.desired.ca !== changed.desired.ca;
      if (body.secret_key === undefined && (isElsewhere || accessKey !== undefined))
        throw badField(
          'secret_key',
          'required',
          'secret_key is required with another endpoint, ca or access_key: it is never used elsewhere unasked',
        );
      if (!isElsewhere && body.secret_key === undefined && areAlike(it.desired, changed.desired)) return;
      const known = accessKey !== undefined && body.secret_key !== undefined ? undefined : destinationKeys(ctx, it);
      const keys = {
        accessKey: accessKey ?? known?.accessKey ?? '',
        secretKey: body.secret_key ?? known?.secretKey ?? '',
      };
      if (before.endpoint !== after.endpoint || isMoved(it.desired, changed.desired))
        await requireUnreferred(ctx, unit, it, 'moved to another endpoint, bucket or path_prefix');
      await requireUsable(ctx, it.meta.id, changed.desired, keys);
      if (body.secret_key !== undefined)
        unit.change(it, (draft) => Object.assign(draft, sealed(ctx, it.meta.id, keys)));
    },
  },
);

export const importBackups = defineEndpoint({
  method: 'POST',
  path: '/settings/backup-destinations/:id/import',
  summary:
    'Take up backups of another installation that the bucket has, into a project: at most 30 at a time, by their manifests',
  on: ['backup_destination', 'id'],
  body: BackupImport,
  response: BackupsImported,
  heavy: true,
  handle: async (ctx, { it, body }) => {
    const { view } = ctx;
    const { project, fields } = placeFrom(view, body);
    const search = { name: manifestName, after: body.after ?? undefined, maxBytes: maxManifestBytes };
    const place = { ...bucketOf(it.desired, destinationKeys(ctx, it)), allowed: settingsOf(view).backup_endpoints };
    const found = await ctx.searchBucket(place, search, ctx.signal());
    if ('trouble' in found) throw conflicting(`Cannot list the bucket. ${found.trouble.message}`);
    const unit = ctx.repo.begin();
    unit.require(project);
    unit.require(it);
    const { project_id, environment_id, server_id } = fields;
    const where = { project_id, place: { environment_id, server_id } };
    const made = new Map<string, ReadonlyResource<'backup'>>();
    const skipped: z.infer<typeof BackupsImported>['skipped'] = [];
    let known = 0;
    for (const { key, content } of found.objects) {
      const described = content === undefined ? undefined : describedBackup(content);
      const skip = (reason: (typeof skipped)[number]['reason']): number => skipped.push({ manifest_key: key, reason });
      if (described === undefined) skip('not_readable');
      else if (made.has(described.id) || view.get('backup', described.id) !== undefined) known += 1;
      else if (hasTooMany(view, described.of, made)) skip('too_many');
      else if (hasNoBackups(described.of)) skip('no_backups');
      else if (isOfAnother(view, described.of, project_id)) skip('of_another_project');
      else {
        const { id, found: says, ...what } = described;
        const desired = {
          ...what,
          ...where,
          destination_id: it.meta.id,
          requested_by: ctx.principal.user.meta.id,
          requested_at: says.finished_at,
          cancel_requested: false,
          pinned: false,
          found: { ...says, folder: key.slice(0, -manifestName.length - 1) },
        };
        made.set(id, unit.create('backup', id, desired));
      }
    }
    return ctx.commit(unit, () => ({
      imported: [...made.values()].map((one) => backups.answerOf(one, view)),
      known,
      skipped,
      next: found.next ?? null,
    }));
  },
});

type Of = DescribedBackup['of'];

function hasTooMany(view: TenantView, { id }: Of, made: ReadonlyMap<string, ReadonlyResource<'backup'>>): boolean {
  const coming = [...made.values()].filter(({ desired }) => desired.of.id === id).length;
  return view.by('backup', 'of', id).length + coming >= countLimits.backupsPerObject;
}

/** What it is of lives here, in another project: its people alone bring anything into that. */
function isOfAnother(view: TenantView, { kind, id }: Of, projectId: string): boolean {
  const it = view.get(kind, id);
  return it !== undefined && it.desired.project_id !== projectId;
}

function hasNoBackups(of: Of): boolean {
  return of.kind === 'database' && engines[of.engine.type].dump === undefined;
}

export const deleteBackupDestination = defineEndpoint({
  method: 'DELETE',
  path: '/settings/backup-destinations/:id',
  summary: 'Delete a backup destination that nothing refers to; what is in its bucket stays',
  on: ['backup_destination', 'id'],
  handle: async (ctx, { it }) => {
    const unit = ctx.repo.begin();
    await requireUnreferred(ctx, unit, it, 'deleted');
    unit.requestDelete(it);
    return ctx.commit(unit, () => undefined);
  },
});

/** Where the bucket is asked. @throws ApiError BAD_REQUEST with the field that is missing or too much */
function placeOf(desired: Parameters<typeof endpointOf>[0]) {
  const at = endpointOf(desired);
  if ('field' in at) throw badField(at.field, 'provider', at.message);
  return at;
}

function isMoved(one: Destination['desired'], other: Destination['desired']): boolean {
  return one.bucket !== other.bucket || one.path_prefix !== other.path_prefix;
}

/** Whether both are asked for the same in the same way. */
function areAlike(one: Destination['desired'], other: Destination['desired']): boolean {
  const [first, second] = [placeOf(one), placeOf(other)];
  return (
    !isMoved(one, other) &&
    one.storage_class === other.storage_class &&
    first.region === second.region &&
    first.pathStyle === second.pathStyle
  );
}

/**
 * Requires that nothing refers to the destination, also not at the commit. What refers to one names it in `populates`
 * of its kind.
 *
 * @throws ApiError CONFLICT
 */
async function requireUnreferred(ctx: RequestContext, unit: Unit, it: Destination, fate: string): Promise<void> {
  await holdPopulation(ctx, unit, it);
  const users = objectsIn(ctx.view, it.meta.kind, it.meta.id);
  if (users.length === 0) return;
  throw conflicting(`The backup destination is used by ${inWords(users)} and cannot be ${fate}`);
}

/** Which field is wrong where a probe found that trouble. */
const fieldOf: Readonly<Record<string, string>> = {
  wrong_secret: 'secret_key',
  unknown_key: 'access_key',
  keys_refused: 'access_key',
  no_bucket: 'bucket',
  may_not_write: 'access_key',
  may_not_read: 'access_key',
  may_not_list: 'access_key',
  may_not_delete: 'access_key',
  may_not_upload: 'access_key',
  wrong_region: 'region',
  bad_storage_class: 'storage_class',
  not_readable_at_once: 'storage_class',
  no_space: 'bucket',
  reads_differently: 'bucket',
  not_listed: 'bucket',
  not_trusted: 'ca',
};

type Bucket = Pick<Destination['desired'], 'bucket' | 'path_prefix' | 'ca' | 'storage_class'> &
  Parameters<typeof placeOf>[0];

function bucketOf(desired: Bucket, keys: Keys): Omit<BucketPlace, 'allowed'> {
  const { bucket, path_prefix: prefix = '', ca, storage_class: storageClass } = desired;
  return { ...placeOf(desired), bucket, prefix, ca, storageClass, ...keys };
}

/** Probes the bucket. @throws ApiError BAD_REQUEST with what is in the way */
async function requireUsable(
  ctx: Pick<RequestContext, 'probeBucket' | 'signal' | 'view'>,
  id: string,
  desired: Bucket,
  keys: Keys,
): Promise<void> {
  const allowed = settingsOf(ctx.view).backup_endpoints;
  const { trouble } = await ctx.probeBucket({ ...bucketOf(desired, keys), allowed }, id, ctx.signal());
  if (trouble !== undefined) throw badField(fieldOf[trouble.code] ?? 'endpoint', trouble.code, trouble.message);
}

function sealed(
  { sealer, tenant }: Pick<RequestContext, 'sealer' | 'tenant'>,
  id: string,
  { accessKey, secretKey }: Keys,
): Pick<Desired, 'access_key' | 'access_key_end' | 'secret_key'> {
  const seal = (text: string, path: string) => sealer.seal(text, { tenant, kind: 'backup_destination', id, path });
  return {
    access_key: seal(accessKey, 'access_key'),
    access_key_end: endOfAccessKey(accessKey),
    secret_key: seal(secretKey, 'secret_key'),
  };
}
