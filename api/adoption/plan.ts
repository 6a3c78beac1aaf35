import type { Survey, SurveyedVolume } from '../../agent-protocol/survey.ts';
import type { ApplicationManifest, FoundGroup, FoundVolume, PlanEntry } from './answer.ts';
import { findingsOf, list, projectWord } from './findings.ts';
import type { Destination, Finding, Ground, Users } from './findings.ts';
import { foldName } from '../../store/fold-name.ts';
import { databaseOf } from './image.ts';
import { manifestOf } from './manifest.ts';
import { makerNames, platforms } from './origin.ts';
import { shellWord } from '../../store/shell-word.ts';
import { freeName, unitsOf } from './units.ts';
import type { Unit } from './units.ts';

interface Adoption {
  found: FoundGroup[];
  volumes: FoundVolume[];
  plan: PlanEntry[];
}

/** An entry of the plan, and what of the server it was made of. */
export interface Planned {
  entry: PlanEntry;
  /** What runs; of a volume, what mounts it, if that is one. */
  unit: Unit | undefined;
  /** Present unless the entry is a volume or is not possible. */
  manifest?: ApplicationManifest;
}

/**
 * What is on a server that is not Setpoint's, and what would become of it. Pure: it changes nothing, and the same survey
 * has the same plan.
 */
export function adoptionOf(survey: Survey, ground: Ground): Adoption {
  return { ...foundIn(survey), plan: plannedOf(survey, ground).map(({ entry }) => entry) };
}

/** What is on the server that is not Setpoint's. */
function foundIn(survey: Survey): Pick<Adoption, 'found' | 'volumes'> {
  return {
    found: groupsOf(unitsOf(survey.containers)),
    volumes: survey.volumes.map(({ name, driver, bytes = null }) => {
      const containers = survey.containers.filter(({ mounts }) => mounts.some((one) => isOf(one, name)));
      return { name, driver, bytes, used_by: containers.map((one) => one.name) };
    }),
  };
}

/** The entries of the plan with what they were made of: volumes first. Pure, as {@link adoptionOf}. */
export function plannedOf(survey: Survey, ground: Ground): Planned[] {
  const units = unitsOf(survey.containers);
  const users = usersOf(units);
  const names = volumeNames(survey.volumes, users);
  const all = [
    ...survey.volumes.flatMap((one) => volumeEntry(one, ground, users, names)),
    ...units.map((unit) => unitEntry(unit, ground, { users, units, names })),
  ];
  const { place } = ground;
  return place === undefined ? all : all.map((one) => withNamesOf(place, one));
}

/** An entry is not possible where something else has its name, or that of a volume that it mounts. */
function withNamesOf(place: Destination, { entry, unit, manifest }: Planned): Planned {
  const own = entry.kind === 'volume' ? [] : [nameTaken(place, 'application', entry.name)];
  const volumes = entry.kind === 'volume' ? [entry.name] : entry.mounts.map(({ volume }) => volume);
  const why = [...own, ...volumes.map((name) => nameTaken(place, 'volume', name))].flatMap((one) => one ?? []);
  if (entry.possible === 'no' || why.length === 0) return { entry, unit, ...(manifest !== undefined && { manifest }) };
  return { entry: refused(entry, why, entry.notes), unit };
}

/** Why nothing of a kind can have a name at its destination; `undefined`: the name is free. */
function nameTaken(
  { environment, applications, volumes }: Destination,
  kind: 'application' | 'volume',
  name: string,
): PlanEntry['why'][number] | undefined {
  const id = (kind === 'application' ? applications : volumes).get(foldName(name));
  return id === undefined ? undefined : { code: 'name_taken', message: aboutName(kind, name, environment, id) };
}

/** What stands against a name, and what to do. `id`: of what has it, if that is known. */
export function aboutName(kind: 'application' | 'volume', name: string, environment: string, id?: string): string {
  const holder = `${kind === 'application' ? 'an application' : 'a volume'} ${name}${id === undefined ? '' : ` (${id})`}`;
  return `Environment ${environment} has ${holder} already: if that was not made of this, rename or delete it, or choose another environment or project`;
}

function isOf({ type, source }: { type: string; source: string }, volume: string): boolean {
  return type === 'volume' && source === volume;
}

function usersOf(units: readonly Unit[]): Users {
  const users = new Map<string, { unit: Unit; isReadOnly: boolean }[]>();
  for (const unit of units)
    for (const volume of new Set(unit.all.flatMap(({ mounts }) => mounts.filter(isVolume).map((one) => one.source)))) {
      const isReadOnly = unit.all.every(({ mounts }) => mounts.every((one) => !isOf(one, volume) || one.read_only));
      users.set(volume, [...(users.get(volume) ?? []), { unit, isReadOnly }]);
    }
  return users;
}

function isVolume({ type }: { type: string }): boolean {
  return type === 'volume';
}

/** How each volume is called in Setpoint: as at the engine, without the project that compose puts before it. */
function volumeNames(volumes: readonly SurveyedVolume[], users: Users): ReadonlyMap<string, string> {
  const taken = new Set<string>();
  return new Map(
    volumes.map(({ name, project, is_anonymous: isAnonymous }) => {
      const user = users.get(name)?.[0]?.unit.name ?? 'volume';
      const short = project !== undefined && name.startsWith(`${project}_`) ? name.slice(project.length + 1) : name;
      return [name, freeName(isAnonymous ? [`${user}-data`] : [short, name], taken)];
    }),
  );
}

function groupsOf(units: readonly Unit[]): FoundGroup[] {
  const groups = new Map<string, FoundGroup>();
  for (const { origin, all } of units) {
    const key = JSON.stringify([origin.maker, origin.group]);
    const group = groups.get(key) ?? { name: origin.group, made_by: origin.maker, containers: [] };
    groups.set(key, group);
    for (const { id, name, image, state, started_at: startedAt, ports, mounts, networks } of all)
      group.containers.push({
        id,
        name,
        service: origin.service,
        image: image.name,
        state,
        started_at: startedAt === '' ? null : startedAt,
        ports,
        volumes: mounts.filter(isVolume).map(({ source }) => source),
        networks,
      });
  }
  return [...groups.values()];
}

/** A volume without a user that the engine named is what a removed container left: it is in no plan. */
function volumeEntry(
  { name, is_anonymous: isAnonymous }: SurveyedVolume,
  ground: Ground,
  users: Users,
  names: ReadonlyMap<string, string>,
): Planned[] {
  const { server } = ground;
  const units = users.get(name) ?? [];
  if (isAnonymous && units.length === 0) return [];
  const [user] = units;
  const called = names.get(name) ?? name;
  const base = {
    kind: 'volume' as const,
    name: called,
    from: {
      made_by: user?.unit.origin.maker ?? null,
      group: user?.unit.origin.group ?? null,
      containers: units.flatMap(({ unit }) => unit.all.map((one) => one.name)),
      volume: name,
    },
    env: [],
    mounts: [],
  };
  const { unit } = user ?? {};
  if (unit?.origin.isTool === true) {
    const message = `It belongs to ${makerNames[unit.origin.maker]} itself`;
    return [{ entry: refused(base, [{ code: 'tool', message }]), unit }];
  }
  if (units.length > 1) {
    const message = `It is mounted by ${list(units.map(({ unit }) => unit.name))}: a volume of Setpoint has one application`;
    return [{ entry: refused(base, [{ code: 'shared_volume', message }]), unit: undefined }];
  }
  const mustStop = user !== undefined && user.unit.isRunning && !user.isReadOnly;
  const message = 'What is in it is copied while nothing writes to it: a copy of files that change is not sound';
  const unused = { code: 'unused', message: 'No container mounts it: move it only if it is still needed' };
  const entry: PlanEntry = {
    ...base,
    possible: mustStop ? 'with_a_stop' : 'yes',
    why: mustStop ? [{ code: 'volume_copied', message }] : [],
    notes: user === undefined ? [unused] : [],
    steps: [createVolume(called, ground), ...(mustStop ? [stopping(user.unit)] : []), copy(name, called)],
    manifest: { name: called, server_id: server.id },
  };
  return [{ entry, unit }];
}

type Base = Omit<PlanEntry, 'possible' | 'why' | 'notes' | 'steps' | 'manifest'>;

function refused(base: Base, why: PlanEntry['why'], notes: PlanEntry['notes'] = []): PlanEntry {
  return { ...base, possible: 'no', why, notes, steps: [], manifest: null };
}

function unitEntry(
  unit: Unit,
  ground: Ground,
  { users, units, names }: { users: Users; units: readonly Unit[]; names: ReadonlyMap<string, string> },
): Planned {
  const { first, origin, name } = unit;
  const database = databaseOf(first.image);
  const findings = findingsOf(unit, ground, users, units);
  const mounts = first.mounts.filter(isVolume).map(({ source, path, read_only: isReadOnly }) => {
    return { volume: names.get(source) ?? source, path, read_only: isReadOnly, source };
  });
  const base: Base = {
    kind: database === undefined ? 'application' : 'database',
    name,
    from: { made_by: origin.maker, group: origin.group, containers: unit.all.map((one) => one.name), volume: null },
    env: first.env,
    mounts: mounts.map(({ volume, path, read_only: isReadOnly }) => ({ volume, path, read_only: isReadOnly })),
  };
  const notes = findings.filter(({ effect }) => effect === 'note').map(plain);
  if (database !== undefined) notes.unshift({ code: 'database', message: aboutDatabases(database) });
  const obstacles = findings.filter(({ effect }) => effect === 'no');
  if (obstacles.length > 0) return { entry: refused(base, obstacles.map(plain), notes), unit };
  const manifest = manifestOf(unit, ground.server.id);
  if ('refused' in manifest) {
    const { field, message } = manifest.refused;
    const why = [{ code: 'not_accepted', message: `No application can have its ${field}: ${message}` }];
    return { entry: refused(base, why, notes), unit };
  }
  const why = findings.filter(({ effect }) => effect === 'with_a_stop').map(plain);
  // what does not run has stopped already
  const possible = why.length > 0 && unit.isRunning ? 'with_a_stop' : 'yes';
  const mustStop = possible === 'with_a_stop';
  const steps =
    mustStop || mounts.length > 0 ? stepsWithVolumes(unit, ground, mounts, mustStop) : stepsBeside(unit, ground);
  return { entry: { ...base, possible, why, notes, steps, manifest }, unit, manifest };
}

function plain({ code, message }: Finding): { code: string; message: string } {
  return { code, message };
}

function aboutDatabases(database: string): string {
  return `It is a database (${database}), which is no kind of its own in Setpoint: it becomes an application, with its data in a volume`;
}

/** The new one runs beside the old one until the old one is stopped by hand. */
function stepsBeside(unit: Unit, ground: Ground): string[] {
  const started = unit.isRunning ? ', beside the old one: both run until you stop that' : '';
  return [
    ...writing(unit, ground),
    `setpoint apply --file moving.yaml, which starts it${started}`,
    ...(unit.isRunning ? [`Once it serves: ${stopping(unit)}`] : []),
  ];
}

/** Its volumes are filled before it is deployed; `mustStop`: only once nothing writes to the old ones. */
function stepsWithVolumes(
  unit: Unit,
  ground: Ground,
  mounts: readonly { volume: string; path: string; read_only: boolean; source: string }[],
  mustStop: boolean,
): string[] {
  return [
    ...writing(unit, ground),
    'setpoint apply --no-deploy --file moving.yaml, which makes it and starts nothing',
    ...mounts.flatMap((one) => [
      createVolume(one.volume, ground),
      `setpoint bind ${shellWord(one.volume)} ${shellWord(unit.name)} ${shellWord(one.path)}${one.read_only ? ' --read-only' : ''}${within(ground)}`,
    ]),
    ...(mustStop ? [stopping(unit)] : []),
    ...mounts.map((one) => copy(one.source, one.volume)),
    `setpoint deploy ${shellWord(unit.name)}${within(ground)}`,
    ...(unit.isRunning && !mustStop ? [`Once it serves: ${stopping(unit)}`] : []),
  ];
}

/** The option that finds names in the project alone; they are found without it, too, unless another project has them. */
function within(ground: Ground): string {
  return ground.place === undefined ? '' : ` --project ${projectWord(ground)}`;
}

function writing({ first }: Unit, ground: Ground): string[] {
  const values = first.env.length === 0 ? '' : ', and write the values of its variables into it';
  const server = shellWord(ground.server.name);
  return [`setpoint adopt ${server} --project ${projectWord(ground)} --manifests > moving.yaml${values}`];
}

function createVolume(name: string, ground: Ground): string {
  return `setpoint create volume ${shellWord(name)} --project ${projectWord(ground)} --on ${shellWord(ground.server.name)}`;
}

function copy(from: string, to: string): string {
  return `On the server: docker run --rm -v ${shellWord(from)}:/from:ro -v sp-vol-ID:/to debian cp -a /from/. /to/ (setpoint get volumes shows the ID of ${to})`;
}

/** How it is stopped so that what made it does not start it again. */
export function stopping({ origin, all }: Unit): string {
  const { swarmService, maker } = origin;
  const names = all.map(({ name }) => shellWord(name)).join(' ');
  if (platforms.has(maker)) return `Stop it in ${makerNames[maker]} (its containers: ${names})`;
  if (swarmService !== undefined) return `On the server: docker service scale ${shellWord(swarmService)}=0`;
  return `On the server: docker update --restart no ${names} && docker stop ${names}`;
}
