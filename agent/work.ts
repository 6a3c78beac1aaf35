import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import PQueue from 'p-queue';
import { SentNotes } from './archive/sent-note.ts';
import { shipping } from './archive/shipment.ts';
import { diskGuard } from './disk/disk-guard.ts';
import { StorageWatch } from './engine/storage-watch.ts';
import type { Entrances } from './entrances.ts';
import type { Files } from './files.ts';
import { Fleet } from './fleet.ts';
import type { FleetLink } from './fleet-link.ts';
import { closedGate } from './functions/gate.ts';
import type { Observation } from './observation.ts';
import type { AgentOptions } from './options.ts';
import { runBackup } from './tasks/backup.ts';
import { BuildRoom } from './tasks/build-room.ts';
import type { ControlPlane } from './tasks/control-plane.ts';
import { patientBuild } from './tasks/patient-build.ts';
import { pinnedBuild } from './tasks/pinned-build.ts';
import { runRecovery } from './tasks/recovery.ts';
import { runRestore } from './tasks/restore.ts';
import type { Tasks } from './tasks/task.ts';
import { tasksOf } from './tasks/tasks.ts';
import type { Upkeep } from './upkeep.ts';
import { VolumeCopies } from './volumes/volume-copies.ts';
import { VolumeWriters } from './volumes/writers.ts';

/** What workers of all kinds work by. */
type Parts = Files &
  Observation &
  Entrances &
  Pick<Upkeep, 'housekeeping'> & {
    server: string;
    /** Networks that are known to exist. */
    networks: Set<string>;
    control: ControlPlane;
  };

/** More starts or builds at once would make each of them slower. */
const parallelStarts = 4;
/** Each takes up to 32 MiB of memory. */
const parallelSegments = 3;

/** The workers of the agent, which `link` leads to from then on. `stack` ends them. */
export function employ(options: AgentOptions, parts: Parts, link: FleetLink, stack: AsyncDisposableStack): Fleet {
  const { engine, images, disk, random, clock, log } = options;
  const { runtime, prober, copier, archiver } = engine;
  const { server, observer, ledger, publication, capture, networks, desired, logs, made, results } = parts;
  const writers = new VolumeWriters(observer, link.wake);
  const common = { runtime, server, observer, ledger, images, publication, capture, prober, networks, disk };
  const services = {
    ...common,
    writers,
    starts: new PQueue({ concurrency: parallelStarts }),
    files: parts.instances,
    ingress: parts.ingress,
    eventSource: randomUUID(),
  };
  const fleet = new Fleet({
    services,
    functions: { ...common, writers, gate: options.gate ?? closedGate, functions: parts.functions },
    volumes: { runtime, server, made, copies: new VolumeCopies({ runtime, copier, clock }), archiver },
    archives: { ...archivesOf(options, parts), random },
    tasks: tasksWith(options, parts, writers),
    taskDeps: { results, logs },
    desired,
    observer,
    capture,
    clock,
    log,
  });
  link.lead(fleet);
  stack.use(fleet);
  stack.use(new StorageWatch({ runtime, observer, disk, exceeded: link.overflowed, clock, log }));
  return fleet;
}

function tasksWith(options: AgentOptions, parts: Parts, writers: VolumeWriters): Tasks {
  const { engine, images, disk, random, clock, log } = options;
  const { runtime, archiver } = engine;
  const { server, observer, monitor, ledger, capture, networks, results, control, functions, housekeeping } = parts;
  const { importFolder, uploads } = parts;
  const imports = { folder: importFolder, uploads, networks: options.imports?.networks ?? [] };
  const ended = (): void => housekeeping.soon();
  const build = patientBuild(options.build, {
    disk: diskGuard(disk),
    room: new BuildRoom({ disk, writes: (project) => runtime.stepWrites(project), clock }),
    engine: monitor,
    clock,
    relist: () => observer.relist(),
  });
  return tasksOf({
    build: pinnedBuild(build, { results, log }),
    built: ended,
    run: { runtime, server, observer, ledger, images, capture, writers, networks, disk, ended, clock, log },
    backup: options.backup ?? runBackup({ runtime, observer, archiver, control, clock, random }),
    restore: options.restore ?? runRestore({ runtime, observer, archiver, control, imports, disk, clock, random }),
    uploads,
    recovery: options.recovery ?? runRecovery({ runtime, observer, disk, clock }),
    functions,
  });
}

/** What sends the logs of databases, and remembers what was sent. */
function archivesOf({ dataDir, engine, archive, disk, clock }: AgentOptions, { observer, control }: Parts) {
  const notes = new SentNotes(join(dataDir, 'archives'));
  const sending = new PQueue({ concurrency: parallelSegments });
  const { runtime } = engine;
  return { open: archive ?? shipping({ runtime, observer, control, disk, notes, sending, clock }), notes };
}
