import { mainPort, mainService } from '../../agent-protocol/workload.ts';
import type { Limits } from '../../agent-protocol/workload.ts';
import { authorityFile, certificateFile, keyFile } from '../../databases/engine.ts';
import type { Encryption, Engine, PasswordKeeper } from '../../databases/engine.ts';
import { engines } from '../../databases/engines.ts';
import type { Values } from '../../databases/parameters.ts';
import { defined } from '../../store/defined.ts';
import { ServiceSpec } from '../../store/kinds/assignment.ts';
import { encryptionPart } from '../../store/kinds/database.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { drillService, sideHost, sideService } from '../../store/kinds/internal-id.ts';
import { parseCpus, parseMemory } from '../../store/kinds/quantity.ts';
import { volumeName } from '../../store/kinds/volume.ts';
import { environmentNetwork } from '../rollout/environment-network.ts';
import { serviceHash } from '../rollout/spec-hash.ts';
import { Failure } from '../runtime/failure.ts';
import { pinnedDigest } from './world.ts';
import type { Database, World } from './world.ts';

/** Seconds within which a first start and a recovery after a crash are no failure. */
const startSeconds = 600;

/** The desired state of the instance that serves a database: what the engine says, and the user's limits. */
export function instanceDesired(
  { database, server, slots }: Pick<World, 'database' | 'server' | 'slots'>,
  restartToken: string | undefined,
): DesiredOf<'assignment'> {
  const { exposed_port: exposed, data_volume_id: volume, internal_id: name } = database.desired;
  const publish = server?.desired.direct_ports_enabled === true ? exposed : undefined;
  return desiredOn(database, {
    service: mainService,
    volume,
    alias: name,
    publish,
    restartToken,
    slots,
    leastBytes: 0,
    encryption: encryptionPart(database.desired),
    keeper: database.desired.rotation && engines[database.desired.type].passwordKeeper,
    command: database.desired.archive && engines[database.desired.type].archive?.archiving(database.desired.version),
  });
}

/**
 * The desired state of an instance of a database on another volume than the one that it serves from. It never archives.
 *
 * @param target it recovers to this instant, and waits there; absent: it serves
 * @param isDrill it goes once a backup was tried in it, and has a name of its own
 */
export function sideInstance(
  database: Database,
  volume: string,
  { target, isDrill }: { target: Date | undefined; isDrill: boolean },
): DesiredOf<'assignment'> {
  const engine = engines[database.desired.type];
  const command = target && engine.archive?.recovering(database.desired.version, target);
  const service = isDrill ? drillService : sideService;
  const alias = sideHost(database.desired.internal_id, service);
  const how = {
    publish: undefined,
    restartToken: undefined,
    slots: [],
    leastBytes: leastToRestore,
    // its volume is made with the password, or is given it at the end of the recovery
    keeper: undefined,
    // no client reaches it but the programs in its container
    encryption: undefined,
  };
  const needed = target && engine.archive?.recoveryParameters;
  return desiredOn(database, { service, volume, alias, command, needed, ...how });
}

/** Memory that an engine needs to make a new cluster and to read a dump into it, whatever is enough to serve. */
const leastToRestore = 1024 ** 3;

interface Where {
  service: string;
  volume: string;
  /** Its name in the network of its environment. */
  alias: string;
  publish: number | undefined;
  restartToken: string | undefined;
  slots: World['slots'];
  /** What its process is begun with; absent: as the engine says. */
  command: readonly string[] | undefined;
  /** Parameters that it has whatever those of the user are. */
  needed?: Values | undefined;
  /** A smaller limit of memory is raised to this. */
  leastBytes: number;
  /** Absent: its volume has the password of the configuration. */
  keeper: PasswordKeeper | undefined;
  /** Which of its configurations speaks TLS; absent: it speaks none. */
  encryption: string | undefined;
}

function desiredOn(database: Database, where: Where): DesiredOf<'assignment'> {
  const { service, volume, alias, publish, restartToken, slots, leastBytes, keeper, command: begun, needed } = where;

  const { meta, desired } = database;
  const { config } = desired;
  const engine = engines[desired.type];
  const encryption = where.encryption === undefined ? undefined : engine.encryption;
  const command = commandOf(engine, {
    parameters: needed === undefined ? desired.parameters : { ...desired.parameters, ...needed },
    command: begun ?? keeper?.command ?? engine.command,
    more: encryption?.arguments({ isEncrypted: desired.require_tls === true }) ?? [],
  });
  const ready = keeper?.ready ?? engine.ready;
  const spec = ServiceSpec.parse(
    defined({
      type: 'service',
      slot: 0,
      image: imageOf(database),
      image_digest: pinnedDigest({ database, slots }),
      command: command && [...command],
      config: defined({
        kind: 'database' as const,
        id: meta.id,
        revision: config.revision,
        encryption: where.encryption,
      }),
      networks: [{ name: environmentNetwork(desired.environment_id), aliases: [alias] }],
      ports: [{ name: mainPort, port: engine.port, ...(publish !== undefined && { publish }) }],
      mounts: [{ type: 'volume', volume: volumeName(volume), path: engine.dataPath(desired.version) }],
      files: [...Object.keys(config.files).map((path) => ({ path })), ...filesOf(encryption, imageOf(database))],
      probe: { type: 'command', command: [...ready], timeout_seconds: 10, start_seconds: startSeconds },
      min_healthy_seconds: 0,
      limits: limitsOf(database, engine, leastBytes),
      restart_policy: 'always',
      restart_token: restartToken,
      stop_signal: engine.stopSignal,
      grace_seconds: engine.graceSeconds,
    }),
  );
  return {
    ...placeOf(database),
    service,
    version: volume,
    run: 'running',
    spec,
    spec_hash: serviceHash(versionOf(`${volume}/${config.revision}`, where.encryption), spec),
  };
}

/** The files that an engine speaks TLS by; its key is read by its user alone. */
function filesOf(
  encryption: Encryption | undefined,
  image: string,
): { path: string; mode?: number; uid?: number; gid?: number }[] {
  if (encryption === undefined) return [];
  const owner = encryption.owner(image);
  const paths = [certificateFile, authorityFile, ...Object.keys(encryption.files)];
  return [{ path: keyFile, mode: 0o400, uid: owner, gid: owner }, ...paths.map((path) => ({ path }))];
}

/** What a hash of an instance begins with: that of one without TLS is as it was before there was any. */
export function versionOf(version: string, encryption: string | undefined): string {
  return encryption === undefined ? version : `${version}/${encryption}`;
}

/** Where instances of a database are, and whose they are. */
export function placeOf({ meta, desired }: Database) {
  return {
    server_id: desired.server_id,
    project_id: desired.project_id,
    environment_id: desired.environment_id,
    workload_kind: 'database',
    workload_id: meta.id,
    workload_name: desired.internal_id,
  } as const;
}

/** `undefined`: as the image says. */
function commandOf(
  { settings }: Engine,
  {
    parameters,
    command,
    more,
  }: {
    parameters: Database['desired']['parameters'];
    command: readonly string[] | undefined;
    /** Arguments that follow. */
    more: readonly string[];
  },
): readonly string[] | undefined {
  if (settings === undefined || (parameters === undefined && more.length === 0)) return command;
  return [...(command ?? settings.command), ...settings.arguments(parameters ?? {}), ...more];
}

/** The image that a database runs, as it is asked for. */
function imageOf({ desired: { image, type, version } }: Database): string {
  return image ?? engines[type].image(version);
}

function limitsOf(
  { desired: { memory_limit, cpu_limit } }: Database,
  { sharedMemory }: Engine,
  leastBytes: number,
): Limits {
  const memory = memory_limit === undefined ? undefined : parseMemory(memory_limit);
  const cpus = cpu_limit === undefined ? undefined : parseCpus(cpu_limit);
  if (memory !== undefined && 'fault' in memory) throw wrong('memory_limit', memory.fault);
  if (cpus !== undefined && 'fault' in cpus) throw wrong('cpu_limit', cpus.fault);
  const memoryBytes = memory && Math.max(memory.bytes, leastBytes);
  const shared = sharedMemory && Math.max(sharedMemory.leastBytes, (memoryBytes ?? 0) * sharedMemory.share);
  return defined({
    memory_bytes: memoryBytes,
    nano_cpus: cpus?.nanoCpus,
    shm_bytes: shared === undefined ? undefined : Math.round(shared),
  });
}

function wrong(field: string, fault: string): Failure {
  return new Failure('InvalidConfig', `Cannot start the database as ${field} is wrong: ${fault}`);
}
