import { z } from 'zod';
import { VolumeBind } from '../resources/volume.ts';
import type { ApplicationManifest } from './answer.ts';
import type { Planned } from './plan.ts';
import type { Unit } from './units.ts';

/** Why one of the named entries cannot be taken over. `code` is stable: programs know it. */
export interface Obstacle {
  name: string;
  code: string;
  message: string;
}

/** A volume of Docker that becomes one of Setpoint. */
export interface WantedVolume {
  name: string;
  /** Its name at the container engine. */
  source: string;
  /** Containers that mount it. */
  containers: readonly string[];
  /** What mounts it and runs; `undefined`: nothing. */
  writer: Unit | undefined;
}

/** Containers that become one application. */
export interface WantedApplication {
  kind: 'application' | 'database';
  planned: Planned;
  unit: Unit;
  manifest: ApplicationManifest;
  mounts: readonly { volume: WantedVolume; path: string; readOnly: boolean }[];
}

export interface Wanted {
  /** Databases first: others need them. */
  applications: readonly WantedApplication[];
  /** Those of the applications, and those that were named themselves. */
  volumes: readonly WantedVolume[];
  obstacles: readonly Obstacle[];
}

/**
 * What the entries of these names become. A name means the application or the database that has it, with its volumes; a
 * volume, if there is none.
 */
export function wantedOf(plan: readonly Planned[], names: readonly string[]): Wanted {
  const obstacles: Obstacle[] = [];
  const applications: WantedApplication[] = [];
  const volumes = new Map<string, WantedVolume>();
  for (const name of names) {
    const named = plan.filter(({ entry }) => entry.name === name);
    const planned = named.find(({ entry }) => entry.kind !== 'volume') ?? named[0];
    if (planned === undefined) {
      const message = 'The plan has nothing of this name: it is gone, or is called otherwise now';
      obstacles.push({ name, code: 'unknown', message });
      continue;
    }
    if (planned.entry.possible === 'no') {
      obstacles.push(...planned.entry.why.map((why) => ({ name, ...why })));
      continue;
    }
    const found = planned.entry.kind === 'volume' ? [volumeOf(planned)] : mountedBy(planned, plan, obstacles);
    for (const volume of found) if (!volumes.has(volume.source)) volumes.set(volume.source, volume);
    const application = applicationOf(planned, volumes, plan);
    if (application !== undefined) applications.push(application);
  }
  const inOrder = applications.toSorted((a, b) => Number(b.kind === 'database') - Number(a.kind === 'database'));
  return { applications: inOrder, volumes: [...volumes.values()], obstacles };
}

function volumeOf({ entry, unit }: Planned): WantedVolume {
  const { containers, volume } = entry.from;
  const writer = entry.possible === 'with_a_stop' ? unit : undefined;
  return { name: entry.name, source: volume ?? entry.name, containers, writer };
}

function isVolume(planned: Planned, name: string): boolean {
  return planned.entry.kind === 'volume' && planned.entry.name === name;
}

/** The volumes of an application. Adds to `obstacles` what stands against its mounts. */
function mountedBy({ entry }: Planned, plan: readonly Planned[], obstacles: Obstacle[]): WantedVolume[] {
  const { name, mounts } = entry;
  const refuse = (message: string): number => obstacles.push({ name, code: 'mount', message });
  return mounts.flatMap(({ volume, path }, at) => {
    const planned = plan.find((one) => isVolume(one, volume));
    const valid = VolumeBind.shape.mount_path.safeParse(path);
    if (!valid.success) refuse(`No application can mount a volume at ${path}: ${z.prettifyError(valid.error)}`);
    const others = mounts.slice(0, at);
    if (others.some((one) => one.volume === volume))
      refuse(`It mounts volume ${volume} at several paths, and an application mounts a volume at one`);
    const near = others.find((one) => isWithin(one.path, path) || isWithin(path, one.path));
    if (near !== undefined)
      refuse(`It mounts volumes at ${near.path} and ${path}: an application mounts none within another`);
    if (planned === undefined) refuse(`Volume ${volume} was not found: look again`);
    return planned === undefined ? [] : [volumeOf(planned)];
  });
}

function isWithin(path: string, other: string): boolean {
  return `${path}/`.startsWith(`${other}/`);
}

function applicationOf(
  planned: Planned,
  volumes: ReadonlyMap<string, WantedVolume>,
  plan: readonly Planned[],
): WantedApplication | undefined {
  const { entry, unit, manifest } = planned;
  if (entry.kind === 'volume' || unit === undefined || manifest === undefined) return undefined;
  const mounts = entry.mounts.flatMap(({ volume: called, path, read_only: readOnly }) => {
    const source = plan.find((one) => isVolume(one, called))?.entry.from.volume;
    const volume = typeof source === 'string' ? volumes.get(source) : undefined;
    return volume === undefined ? [] : [{ volume, path, readOnly }];
  });
  return { kind: entry.kind, planned, unit, manifest, mounts };
}
