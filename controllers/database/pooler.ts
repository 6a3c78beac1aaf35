import { mainPort } from '../../agent-protocol/workload.ts';
import { authorityFile, certificateFile, keyFile } from '../../databases/engine.ts';
import type { Pooler } from '../../databases/engine.ts';
import { engines } from '../../databases/engines.ts';
import { defined } from '../../store/defined.ts';
import { ServiceSpec } from '../../store/kinds/assignment.ts';
import { encryptionPart } from '../../store/kinds/database.ts';
import { poolerService, sideHost } from '../../store/kinds/internal-id.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { Action } from '../rollout/actions.ts';
import { environmentNetwork } from '../rollout/environment-network.ts';
import { plan as planRollout } from '../rollout/plan.ts';
import { serviceHash } from '../rollout/spec-hash.ts';
import { placeOf, versionOf } from './instance.ts';
import type { World } from './world.ts';

/** What the clients of a database share connections by; `undefined`: each has its own. */
export function poolerOf({ database, isPoolerUsed }: Pick<World, 'database' | 'isPoolerUsed'>): Pooler | undefined {
  const { type, connection_pooling } = database.desired;
  return connection_pooling === true || isPoolerUsed ? engines[type].pooler : undefined;
}

/**
 * What a pooler is restarted for: with the database, and whenever its engine began anew. The engine has another address then,
 * and what a pooler knows of names may be minutes old.
 */
export function poolerToken({ database, slots }: Pick<World, 'database' | 'slots'>): string | undefined {
  const { restart_token: asked, data_volume_id: volume } = database.desired;
  const begun = slots.find((it) => it.desired.version === volume)?.observed?.started_at;
  const parts = [asked, begun].filter((it) => it !== undefined);
  return parts.length === 0 ? undefined : parts.join(' ');
}

/** The writes that bring the pooler one step nearer to the database. Pure. It runs whenever the database is to. */
export function planPooler(world: World): Action[] {
  const { database, poolers } = world;
  const { meta, desired } = database;
  const pooler = poolerOf(world);
  return planRollout({
    run: desired.run,
    replicas: 1,
    surge: 0,
    exclusive: false,
    restartToken: poolerToken(world),
    goal: pooler && {
      id: meta.id,
      owner: database,
      desired: (_, restartToken) => poolerDesired(world, pooler, restartToken),
    },
    mayServe: new Set(pooler === undefined ? [] : [meta.id]),
    slots: poolers,
  });
}

/** The desired state of the instance of the pooler of a database. */
export function poolerDesired(
  { database, poolerImage }: Pick<World, 'database' | 'poolerImage'>,
  pooler: Pooler,
  restartToken: string | undefined,
): DesiredOf<'assignment'> {
  const { meta, desired } = database;
  const { type, config, internal_id, database_user: username, database_name: name } = desired;
  const server = { host: internal_id, port: engines[type].port };
  const encryption = encryptionPart(desired);
  const paths = [
    ...Object.keys(pooler.files(server, { username, database: name, password: '' })),
    ...(encryption === undefined ? [] : [keyFile, certificateFile, authorityFile]),
  ];
  const { memoryBytes, openFiles } = pooler;
  const spec = ServiceSpec.parse(
    defined({
      type: 'service',
      slot: 0,
      image: poolerImage ?? pooler.image,
      entrypoint: [...pooler.entrypoint],
      config: defined({
        kind: 'database' as const,
        id: meta.id,
        service: poolerService,
        revision: config.revision,
        encryption,
      }),
      networks: [{ name: environmentNetwork(desired.environment_id), aliases: [sideHost(internal_id, poolerService)] }],
      ports: [{ name: mainPort, port: pooler.port }],
      files: paths.map((path) => ({ path })),
      probe: { type: 'command', command: [...pooler.ready], timeout_seconds: 10 },
      min_healthy_seconds: 0,
      limits: { memory_bytes: memoryBytes, ulimits: { nofile: { soft: openFiles, hard: openFiles } } },
      capabilities: { drop: ['ALL'], add: [] },
      restart_policy: 'always',
      restart_token: restartToken,
      stop_signal: pooler.stopSignal,
      grace_seconds: pooler.graceSeconds,
    }),
  );
  return {
    ...placeOf(database),
    service: poolerService,
    version: meta.id,
    run: 'running',
    spec,
    spec_hash: serviceHash(versionOf(`${poolerService}/${config.revision}`, encryption), spec),
  };
}
