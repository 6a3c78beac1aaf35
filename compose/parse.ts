import type { PlainComposedService } from '../store/kinds/composed-service.ts';
import { dependencyFault } from './dependencies.ts';
import { readContents } from './files.ts';
import { Findings } from './findings.ts';
import type { Finding } from './findings.ts';
import { interpolate } from './interpolate.ts';
import type { Variables } from './interpolate.ts';
import { isBlank } from './node.ts';
import type { Node, Place } from './node.ts';
import { faultOfReference } from './environment.ts';
import { accepted, readKeys, readMap, withoutEffect } from './read-value.ts';
import type { Found, Keys } from './read-value.ts';
import { readYaml } from './read-yaml.ts';
import { refusedOfFile } from './refused.ts';
import { readService } from './service.ts';
import type { ServiceDraft, Surroundings } from './service.ts';
import { checkWriters } from './writers.ts';

/** What a compose file declares. With errors, the rest is what could be read, and must not be run. */
export interface Composition {
  services: readonly PlainComposedService[];
  volumes: readonly string[];
  networks: readonly string[];
  errors: readonly Finding[];
  /** What means something else here than to compose, or nothing. */
  warnings: readonly Finding[];
  /** The files of its repository that it refers to, each with where it is named first. */
  wanted: ReadonlyMap<string, Place>;
}

export interface ComposeInput {
  text: string;
  /** The variables of the application. The file can see no others. */
  variables: Variables;
  /** The file lies in a repository: services may be built from it and be given its files. */
  inRepository: boolean;
  /** The folder that it lies in there; absent: the topmost. */
  folder?: string | undefined;
}

const maxServices = 50;
const volumeName = /^[A-Za-z0-9][\w.-]{0,62}$/;

/**
 * Reads a compose file by the allow-list, into the model of Setpoint. Pure: nothing is run, and no file, address or
 * process environment is read. Everything outside of the allow-list is an error that names its key.
 */
export function parseCompose({ text, variables, inRepository, folder = '.' }: ComposeInput): Composition {
  const findings = new Findings();
  const top = readYaml(text, (value, at) => interpolated(value, at, variables), findings);
  const composition = top === undefined ? empty : read(top, { findings, variables, inRepository, folder });
  return { ...composition, errors: findings.errors, warnings: findings.warnings };
}

/** What variables take of other objects is known to a deployment alone, and is put into the variables of a service. */
function interpolated(text: string, { path }: Place, variables: Variables): ReturnType<typeof interpolate> {
  const result = interpolate(text, variables);
  if ('fault' in result || isRead(path)) return result;
  const [name] = result.referring;
  return name === undefined ? result : { fault: faultOfReference(name) };
}

/** Whether references in a value are read, as in the environment of a service, or the value has no effect where it stands. */
function isRead(path: string): boolean {
  const names = path.split('.').slice(0, 3);
  return names.some((name) => name.startsWith('x-')) || (names[0] === 'services' && names[2] === 'environment');
}

const empty = { services: [], volumes: [], networks: [], wanted: new Map<string, Place>() };

function read(top: Node, base: Pick<Surroundings, 'findings' | 'variables' | 'inRepository' | 'folder'>) {
  const found: Surroundings = {
    ...base,
    wanted: new Map(),
    volumes: new Set(),
    networks: new Set(['default']),
    configs: new Map(),
    secrets: new Map(),
  };
  let services: Node | undefined;
  const keys: Keys<Found> = {
    version: accepted,
    name: withoutEffect('an application has the name that Setpoint has for it'),
    services: (it) => (services = it),
    volumes: (it) => (found.volumes = new Set(declared(it, volumeKeys, found))),
    networks: (it) => (found.networks = new Set(['default', ...declared(it, networkKeys, found)])),
    configs: (it) => (found.configs = readContents(it, found)),
    secrets: (it) => (found.secrets = readContents(it, found)),
  };
  readKeys(top, keys, found, refusedOfFile);
  if (services === undefined) {
    if (top.type === 'map') found.findings.error(top, 'must have services');
    return empty;
  }
  const named = [...readMap(services, found)].filter(([name]) => !name.startsWith('x-'));
  if (named.length === 0) found.findings.error(services, 'must have a service');
  if (named.length > maxServices) found.findings.error(services, `must have at most ${maxServices} services`);
  const drafts = named.slice(0, maxServices).flatMap(([name, it]) => readService(name, it, found) ?? []);
  const active = activeOf(drafts, found);
  const finished = active.map((draft) => finish(draft, active, found));
  const fault = dependencyFault(finished);
  if (fault !== undefined) found.findings.error(services, fault);
  checkWriters(active, found);
  return { services: finished, volumes: [...found.volumes], networks: [...found.networks], wanted: found.wanted };
}

type Refusals = Readonly<Record<string, string>>;

/** The names of `volumes` or `networks` at the top. */
function declared(node: Node, [keys, refusals]: readonly [Keys<Found>, Refusals], found: Found): string[] {
  if (isBlank(node)) return [];
  return [...readMap(node, found)].flatMap(([name, it]) => {
    if (!volumeName.test(name)) found.findings.error(it, 'must have a name of letters, digits, _, . and -');
    if (!isBlank(it)) readKeys(it, keys, found, refusals);
    return [name];
  });
}

const ownName = withoutEffect('what belongs to an application is named by Setpoint');
const own = 'everything that an application uses is its own';

/** Reads `external: false`, which is what holds. */
function notExternal(node: Node, { findings }: Found): void {
  if (node.type !== 'scalar' || node.text !== 'false') findings.error(node, `is refused: ${own}`);
}

function onlyDriver(name: string) {
  return (node: Node, { findings }: Found): void => {
    if (isBlank(node)) return;
    if (node.type === 'scalar' && node.text === name) findings.warn(node, 'has no effect: it is what holds anyway');
    else findings.error(node, `is refused: only ${name} can be there, which holds anyway`);
  };
}

/** Reads a map that must have nothing in it. */
function nothingIn(why: string) {
  return (node: Node, { findings }: Found): void => {
    if (!isBlank(node) && !(node.type === 'map' && node.fields.size === 0)) findings.error(node, `is refused: ${why}`);
  };
}

const labels = withoutEffect('Setpoint keeps no labels of volumes and networks');
const volumeKeys: readonly [Keys<Found>, Refusals] = [
  {
    name: ownName,
    labels,
    external: notExternal,
    driver: onlyDriver('local'),
    driver_opts: nothingIn('by options a volume can be any folder of its server'),
  },
  {},
];
const networkKeys: readonly [Keys<Found>, Refusals] = [
  {
    name: ownName,
    labels,
    external: notExternal,
    driver: onlyDriver('bridge'),
    driver_opts: nothingIn('networks are those of Setpoint'),
    attachable: withoutEffect('only services of this file are in it'),
  },
  {
    ipam: 'addresses are given by the server',
    internal: 'Setpoint cannot cut a network off from others yet',
    enable_ipv6: 'addresses are given by the server',
    enable_ipv4: 'addresses are given by the server',
  },
];

/** The services without those whose profiles nothing switches on. `COMPOSE_PROFILES` of the application names profiles. */
function activeOf(drafts: readonly ServiceDraft[], { variables, findings }: Surroundings): readonly ServiceDraft[] {
  const on = new Set((variables.get('COMPOSE_PROFILES') ?? '').split(',').map((name) => name.trim()));
  return drafts.filter(({ profiles, node }) => {
    if (profiles.length === 0 || on.has('*') || profiles.some((name) => on.has(name))) return true;
    findings.warn(node, 'is left out: no profile of it is in the variable COMPOSE_PROFILES of the application');
    return false;
  });
}

function finish(draft: ServiceDraft, all: readonly ServiceDraft[], found: Surroundings): PlainComposedService {
  const { service, dependencies, node } = draft;
  const names = new Set(all.map((it) => it.service.name));
  for (const { at, service: name, required } of dependencies)
    if (!names.has(name) && required)
      found.findings.error(at, `depends on ${name}, which is no service, or is in no profile that is on`);
  const isAwaited = all.some(({ dependencies: others }) =>
    others.some((it) => it.service === service.name && it.condition === 'service_completed_successfully'),
  );
  if (draft.restart === undefined && !isAwaited)
    found.findings.warn(
      node,
      'has no restart: Setpoint starts it again whenever it ends. Write restart: "no" for a service that comes to an end',
    );
  if (isAwaited && draft.restart === 'always')
    found.findings.error(node.fields.get('restart') ?? node, 'must be "no" or on-failure, as others wait for its end');
  return {
    ...service,
    restart_policy: draft.restart ?? (isAwaited ? 'no' : 'always'),
    depends_on: dependencies
      .filter((it) => names.has(it.service))
      .map(({ service: name, condition }) => ({ service: name, condition })),
  };
}
