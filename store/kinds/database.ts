import { z } from 'zod';
import { authorityFile, certificateFile, keyFile } from '../../databases/engine.ts';
import type { Demand } from '../../databases/engine.ts';
import { engines } from '../../databases/engines.ts';
import { RunState } from './application.ts';
import { Declarations, ofDeclarations } from './declarations.ts';
import { defineKind } from './define.ts';
import { Id, Name, Port, Sealed, Timestamp } from './fields.ts';
import { InstanceId, instanceOwner, outlivesInstance } from './instance-child.ts';
import { internalId, poolerService } from './internal-id.ts';

export const DatabaseType = z.enum(['postgres', 'mysql', 'mariadb', 'redis', 'mongodb']);

export const DatabasePhase = z.enum(['running', 'stopped', 'provisioning', 'error', 'deleting']);
export type DatabasePhase = z.infer<typeof DatabasePhase>;

const encrypted = 'tls';
const alone = 'alone';

/** Which configuration of a database speaks TLS, for the references of its instances; `undefined`: none. */
export function encryptionPart({ tls, require_tls }: EncryptionOf): string | undefined {
  if (tls === undefined) return undefined;
  return [encrypted, tls.revision, ...(require_tls === true ? [alone] : [])].join('-');
}

interface EncryptionOf {
  readonly tls?: { readonly revision: number } | undefined;
  readonly require_tls?: true | undefined;
}

/** What the words of a reference say of TLS; `undefined`: such an instance speaks none. */
function demandIn(words: readonly string[]): Demand | undefined {
  const part = words.find((word) => word.startsWith(`${encrypted}-`));
  return part === undefined ? undefined : { isEncrypted: part.endsWith(`-${alone}`) };
}

/** A database server of one engine with one volume. Its type, its version, its user and its `database_name` never change. */
export const database = defineKind({
  kind: 'database',
  version: 1,
  /** Only the API acts on declarations. Without `tls` a leader runs it as it ran before that was given. */
  ignorable: [
    ...ofDeclarations,
    'tls',
    'tls.revision',
    'tls.certificate',
    'tls.authority',
    'tls.key',
    'tls.key.$sealed',
    'tls.key.for',
    'tls.names',
    'tls.expires_at',
  ],
  desired: z.object({
    project_id: Id,
    environment_id: Id,
    server_id: Id,
    template_instance_id: InstanceId,
    declarations: Declarations,
    name: Name,
    display_name: z.string().min(1).max(100).optional(),
    /** Slug of the name and 6 hex digits: container and DNS name, never changed by a rename. */
    internal_id: z.string(),
    type: DatabaseType,
    /** Of the engine, such as `17`. */
    version: z.string(),
    /** In place of the engine's official image. */
    image: z.string().optional(),
    database_name: z.string(),
    database_user: z.string(),
    /** Sealed for `password`. */
    password: Sealed,
    /** What its container is begun with, see `databases/engine.ts`. */
    config: z.object({
      /** Another one is another configuration of its instance. */
      revision: z.int(),
      env: z.record(z.string(), Sealed),
      /** In base64, by path. */
      files: z.record(z.string(), Sealed),
    }),
    /** Its password was changed after it was made: its engine is held to the one of `config`. */
    rotation: z
      .object({
        /** The password that its engine has until one with `revision` or a later one is ready. Sealed for `rotation.former`. */
        former: Sealed,
        /** The first revision of `config` with the password. */
        revision: z.int(),
      })
      .optional(),
    memory_limit: z.string().optional(),
    cpu_limit: z.string().optional(),
    /** Settings of its engine by name, see `databases/parameters.ts`; absent: those of its image. */
    parameters: z.record(z.string(), z.string()).optional(),
    /** Port of the server that leads to it; absent: it is reached from its environment only. */
    exposed_port: Port.optional(),
    /** Clients may share connections to it. Absent: each has its own. */
    connection_pooling: z.literal(true).optional(),
    /** Clients may connect by TLS alone. Absent: without it, too. */
    require_tls: z.literal(true).optional(),
    /** What its engine proves itself with by TLS; absent: it speaks none, as its instance began before there was any. */
    tls: z
      .object({
        /** Another one is another configuration of its instances. */
        revision: z.int(),
        /** Both in PEM: the certificate of its engine, and that of the authority of its environment, which issued it. */
        certificate: z.string(),
        authority: z.string(),
        /** In PEM. Sealed for `tls.key`. */
        key: Sealed,
        /** Names and addresses that the certificate is for. */
        names: z.array(z.string()),
        expires_at: Timestamp,
      })
      .optional(),
    /** The volume that its data is in. */
    data_volume_id: Id,
    /** Its writes are archived: it can be brought to any instant. Absent: they are not. */
    archive: z
      .object({
        /** Of its archive. Another one begins with each change of volume or destination, and when archiving is turned on. */
        id: Id,
        destination_id: Id,
        /** Base backups that stay. */
        retention_count: z.int().min(1).max(365),
        /** When base backups are made, in UTC; absent: once a day. */
        cron_expression: z.string().optional(),
      })
      .optional(),
    run: RunState,
    restart_token: z.string().optional(),
    /** Another one with each restore into it, so that two of them do not begin at once. */
    restore_token: z.string().optional(),
  }),
  observed: z.object({
    phase: DatabasePhase,
    /** Digest of the image that it runs from the first start on: a newer one of the same tag is no restart's to bring. */
    image_digest: z.string().optional(),
    /** It has been ready: what follows is no first start. */
    initialised: z.literal(true).optional(),
    /** Revision of the configuration that its engine was last ready with; absent as long as there was no rotation. */
    config_revision: z.int().optional(),
    /** Users were notified that it is in error. */
    notified: z.literal(true).optional(),
  }),
  unique: (d) => [{ scope: d.environment_id, name: d.name }],
  owners: (d) => [{ kind: 'environment', id: d.environment_id, blocks: true }, ...instanceOwner(d)],
  populates: { backup_destination: 'destination', environment: 'environment', server: 'server', project: 'project' },
  indexes: {
    project: (d) => d.project_id,
    environment: (d) => d.environment_id,
    template_instance: (d) => d.template_instance_id,
    server: (d) => d.server_id,
    internal_id: (d) => d.internal_id,
    volume: (d) => d.data_volume_id,
    destination: (d) => d.archive?.destination_id,
  },
  configuration({ config: { env, files }, ...desired }, _, { id, part = '' }) {
    const of = { kind: 'database', id, path: 'config' };
    const { type, internal_id: host, database_user: username, database_name: database, password: secret } = desired;
    const { pooler, port, encryption } = engines[type];
    const words = part.split('/');
    const demand = demandIn(words);
    const { tls } = demand === undefined ? {} : desired;
    const own = tls && {
      secret: tls.key,
      files: (key: string) => ({
        [keyFile]: key,
        [certificateFile]: `${tls.certificate}${tls.authority}`,
        [authorityFile]: tls.authority,
      }),
    };
    if (words[0] === poolerService) {
      if (pooler === undefined) return { of, env };
      const server = { host, port };
      const settings = (password: string) => pooler.files(server, { username, password, database }, tls && demand);
      return { of, env, made: [{ secret, files: settings }, ...(own === undefined ? [] : [own])] };
    }
    if (own === undefined) return { of, env, files };
    const forClients = (password: string) => ({
      ...encryption?.files,
      ...encryption?.clientFiles?.({ username, password, database }),
    });
    return { of, env, files, made: [own, { secret, files: forClients }] };
  },
  clone: {
    references: ['environment_id', 'server_id', 'data_volume_id'],
    own: ['data_volume_id'],
    reset: (draft, copyId) => {
      draft.internal_id = internalId(draft.name, copyId.slice(0, 6));
      // its own volume is made with the password
      delete draft.rotation;
      // its name is in the certificate, and its environment has an authority of its own
      delete draft.tls;
      delete draft.exposed_port;
      delete draft.archive;
      delete draft.restart_token;
      delete draft.restore_token;
      delete draft.template_instance_id;
      delete draft.declarations;
    },
  },
  finalizers: ['database'],
  keep: { untilDeleted: 'A user deletes it, or it goes with its environment', ...outlivesInstance },
});
