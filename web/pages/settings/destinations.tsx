import type { VNode } from 'preact';
import { call, list } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import type { BodyOf } from '../body-of.ts';
import { Status } from '../../parts/status.tsx';
import { Time } from '../../parts/time.tsx';
import { KeptKindList } from './kept-kind.tsx';
import { destinationRow, mostKept } from './kept-text.ts';

/** Buckets that backups are kept in. */
export function Destinations(): VNode {
  const { login } = useConsole();
  return (
    <KeptKindList
      kind="backup_destination"
      word="a backup destination"
      title="Backup destinations"
      about="Buckets for backups. One is kept once an object could be written, read, listed and deleted there."
      path="/api/v1/settings/backup-destinations"
      command="setpoint create backup-destination NAME --provider s3 --bucket BUCKET"
      secrets={['secret_key']}
      start={{ provider: 's3' }}
      layout={{
        groups: [
          { fields: ['name', 'provider', 'bucket', 'region', 'endpoint', 'account_id', 'jurisdiction'] },
          { title: 'Access', fields: ['access_key', 'secret_key'] },
        ],
        words: {
          provider: {
            options: {
              s3: 'Amazon S3',
              r2: 'Cloudflare R2',
              minio: 'MinIO',
              b2: 'Backblaze B2',
              wasabi: 'Wasabi',
              custom: 'Another one',
            },
          },
        },
        visibleWhen: {
          account_id: ({ provider }) => provider === 'r2',
          jurisdiction: ({ provider }) => provider === 'r2',
        },
      }}
      columns={[
        {
          id: 'name',
          title: 'Name',
          isPrimary: true,
          cell: ({ name }) => <span class="strong">{name}</span>,
          sortBy: ({ name }) => name,
        },
        {
          id: 'bucket',
          title: 'Bucket',
          cell: ({ bucket, path_prefix: prefix }) => <code>{prefix === null ? bucket : `${bucket}/${prefix}`}</code>,
        },
        { id: 'endpoint', title: 'Endpoint', cell: ({ endpoint }) => endpoint },
        {
          id: 'status',
          title: 'Status',
          isBare: true,
          cell: (one) => <Status kind="backup_destination" object={one} />,
        },
        {
          id: 'probed',
          title: 'Tried',
          cell: ({ last_probe_at: at }) => (at === null ? 'not yet' : <Time at={at} />),
        },
      ]}
      list={(reader) =>
        list(reader, '/api/v1/settings/backup-destinations', mostKept).then((all) => all.filter(destinationRow))
      }
      create={(body) =>
        // the fields are those of the schema of this body
        call(login, 'POST', '/api/v1/settings/backup-destinations', { body: body as BodyOf<'createBackupDestination'> })
      }
      update={(id, body, ifMatch) =>
        call(login, 'PUT', '/api/v1/settings/backup-destinations/{id}', {
          path: { id },
          body: body as BodyOf<'updateBackupDestination'>, // as above
          ifMatch,
        })
      }
      remove={(id) => call(login, 'DELETE', '/api/v1/settings/backup-destinations/{id}', { path: { id } })}
      stays={['The bucket and all objects in it']}
      whyKept={() => undefined}
    />
  );
}
