import { Capability } from '../agent-protocol/workload.ts';
import { DependencyCondition } from '../store/kinds/composed-service.ts';
import type { PlainComposedService } from '../store/kinds/composed-service.ts';
import { ImageUrl } from '../store/kinds/image-url.ts';
import { readBuild } from './build.ts';
import { assign, readCpus, readDeploy, readMemory, readProcesses, readRestart } from './deploy.ts';
import type { Scale } from './deploy.ts';
import { readEnvFiles, readVariables } from './environment.ts';
import { readFiles } from './files.ts';
import type { Content } from './files.ts';
import { readHealthcheck } from './healthcheck.ts';
import type { Variables } from './interpolate.ts';
import { readTmpfs, readVolumes } from './mounts.ts';
import type { Declared } from './mounts.ts';
import { isBlank } from './node.ts';
import type { MapNode, Node } from './node.ts';
import { readExposed, readPorts } from './ports.ts';
import {
  accepted,
  readBytes,
  readCommand,
  readFlag,
  readKeys,
  readList,
  readMap,
  readMatching,
  readSeconds,
  readText,
  withoutEffect,
} from './read-value.ts';
import type { Keys } from './read-value.ts';
import { refusedOfService } from './refused.ts';
import { readUlimits } from './ulimits.ts';

/** What a service is read with. */
export interface Surroundings extends Declared {
  variables: Variables;
  networks: ReadonlySet<string>;
  configs: ReadonlyMap<string, Content>;
  secrets: ReadonlyMap<string, Content>;
}

/** A service with what only the file as a whole decides: whether it restarts, which depends on who waits for it. */
export interface ServiceDraft {
  service: Omit<PlainComposedService, 'restart_policy'>;
  restart: PlainComposedService['restart_policy'] | undefined;
  profiles: readonly string[];
  /** Where each dependency is written, and whether the service needs it. */
  dependencies: readonly { at: Node; service: string; condition: DependencyCondition; required: boolean }[];
  node: MapNode;
}

const maxShmBytes = 256 * 1024 ** 2;
const serviceName = /^[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?$/;

/** Reads one service by the allow-list. Every key outside of it is an error that names it. */
export function readService(name: string, node: Node, found: Surroundings): ServiceDraft | undefined {
  const { findings } = found;
  if (!serviceName.test(name)) findings.error(node, 'must have a name of up to 63 lower-case letters, digits, - and _');
  if (node.type !== 'map') return findings.error(node, 'must be a map');
  const service: ServiceDraft['service'] = {
    name,
    env: {},
    env_files: [],
    ports: [],
    mounts: [],
    files: [],
    depends_on: [],
    replicas: 1,
    limits: {},
    networks: [{ name: 'default', aliases: [name] }],
    grace_seconds: 10,
    read_only_root: false,
    init: false,
    capabilities: { drop: [], add: [] },
  };
  const scale: Scale = { replicas: 1, restart: undefined, limits: service.limits };
  let profiles: string[] = [];
  let dependencies: ServiceDraft['dependencies'] = [];
  const keys: Keys<Surroundings> = {
    image: (it) => assign(service, 'image', readImage(it, found)),
    build: (it) => (service.build = readBuild(it, found)),
    command: (it) => assign(service, 'command', readCommand(it, found)),
    entrypoint: (it) => assign(service, 'entrypoint', readCommand(it, found)),
    environment: (it) => (service.env = isBlank(it) ? {} : readVariables(it, found, 'variables')),
    env_file: (it) => (service.env_files = readEnvFiles(it, found)),
    ports: (it) => service.ports.push(...readPorts(it, found)),
    expose: (it) => service.ports.push(...readExposed(it, found)),
    volumes(it) {
      const { mounts, files } = readVolumes(it, found);
      service.mounts.push(...mounts);
      service.files.push(...files);
    },
    tmpfs: (it) => service.mounts.push(...readTmpfs(it, found)),
    configs: (it) => service.files.push(...readFiles(it, '/', found.configs, found)),
    secrets: (it) => service.files.push(...readFiles(it, '/run/secrets/', found.secrets, found)),
    depends_on: (it) => (dependencies = readDependencies(it, found)),
    healthcheck: (it) => assign(service, 'healthcheck', readHealthcheck(it, found)),
    restart: (it) => (scale.restart = readRestart(it, found)),
    deploy: (it) => readDeploy(it, scale, found),
    networks: (it) => (service.networks = readNetworks(name, it, found)),
    user: (it) =>
      assign(
        service,
        'user',
        readMatching(it, /^[\w.-]{1,64}(?::[\w.-]{1,64})?$/, 'must be USER or USER:GROUP', found),
      ),
    working_dir: (it) =>
      assign(service, 'working_dir', readMatching(it, /^\/[^\0\n\r]{0,254}$/, 'must be an absolute path', found)),
    stop_grace_period: (it) => assign(service, 'grace_seconds', readSeconds(it, 0, 3600, found)),
    stop_signal: (it) =>
      assign(
        service,
        'stop_signal',
        readMatching(it, /^SIG[A-Z0-9+-]{1,12}$/, 'must be a signal such as SIGINT', found),
      ),
    read_only: (it) => assign(service, 'read_only_root', readFlag(it, found)),
    init(it) {
      const wanted = readFlag(it, found);
      assign(service, 'init', wanted);
      if (wanted === false)
        found.findings.warn(
          it,
          "has no effect: the first process of a container is the engine's own, unless the program is one itself",
        );
    },
    cap_drop: (it) => (service.capabilities.drop = readCapabilities(it, found)),
    cap_add: (it) => (service.capabilities.add = addedCapabilities(it, found)),
    mem_limit: (it) => assign(service.limits, 'memory_bytes', readMemory(it, found)),
    cpus: (it) => assign(service.limits, 'nano_cpus', readCpus(it, found)),
    pids_limit: (it) => assign(service.limits, 'processes', readProcesses(it, found)),
    shm_size: (it) => assign(service.limits, 'shm_bytes', readBytes(it, 65_536, maxShmBytes, found)),
    profiles: (it) => (profiles = texts(it, found)),
    security_opt: (it) => onlyNoNewPrivileges(it, found),
    labels: (it) => ownLabels(it, found),
    ulimits: (it) => (service.limits.ulimits = readUlimits(it, found)),
    hostname: withoutEffect('a service is reached by its name, and a host name is that of its container'),
    tty: withoutEffect('an instance has no terminal; setpoint exec opens one in it'),
    stdin_open: withoutEffect('an instance has no terminal; setpoint exec opens one in it'),
    pull_policy: withoutEffect('the image of a deployment is resolved once, and stays'),
    cpu_shares: withoutEffect('instances without cpus have equal shares of their server'),
    mem_reservation: withoutEffect('nothing of a server is kept for one service'),
    annotations: withoutEffect('Setpoint keeps no labels of services'),
    attach: accepted,
  };
  readKeys(node, keys, found, refusedOfService);
  if (service.image === undefined && service.build === undefined && !node.fields.has('image'))
    findings.error(node, 'must have an image or a build');
  if (service.build !== undefined && service.image !== undefined) {
    const at = node.fields.get('image');
    if (at !== undefined) findings.warn(at, 'names no image to pull, as the service is built: Setpoint names it');
    delete service.image;
  }
  service.replicas = scale.replicas;
  checkPaths(service, node, found);
  service.ports = distinct(service.ports);
  return { service, restart: scale.restart, profiles, dependencies, node };
}

function readImage(node: Node, found: Declared): string | undefined {
  const text = readText(node, found);
  const parsed = text === undefined ? undefined : ImageUrl.safeParse(text);
  if (parsed === undefined || parsed.success) return parsed?.data;
  const rule = parsed.error.issues[0]?.message ?? '';
  return found.findings.error(node, `${rule.charAt(0).toLowerCase()}${rule.slice(1)}`);
}

function texts(node: Node, found: Declared): string[] {
  return readList(node, found).flatMap((it) => readText(it, found) ?? []);
}

function readDependencies(node: Node, found: Surroundings): ServiceDraft['dependencies'] {
  if (node.type === 'list')
    return readList(node, found).flatMap((at) => {
      const service = readText(at, found);
      return service === undefined ? [] : [{ at, service, condition: 'service_started', required: true }];
    });
  return [...readMap(node, found)].map(([service, at]) => {
    const read: { condition: DependencyCondition; required: boolean } = {
      condition: 'service_started',
      required: true,
    };
    const keys: Keys<Surroundings> = {
      condition(it) {
        const parsed = DependencyCondition.safeParse(readText(it, found));
        if (parsed.success) read.condition = parsed.data;
        else found.findings.error(it, `must be one of ${DependencyCondition.options.join(', ')}`);
      },
      required: (it) => (read.required = readFlag(it, found) ?? true),
      restart: withoutEffect('a service goes on when one that it depends on is replaced'),
    };
    if (!isBlank(at)) readKeys(at, keys, found);
    return { at, service, ...read };
  });
}

function readNetworks(service: string, node: Node, found: Surroundings): PlainComposedService['networks'] {
  const entries: (readonly [string | undefined, Node, Node | undefined])[] =
    node.type === 'list'
      ? readList(node, found).map((it) => [readText(it, found), it, undefined])
      : [...readMap(node, found)].map(([name, it]) => [name, it, it]);
  const networks = entries.flatMap(([name, at, settings]) => {
    if (name === undefined) return [];
    if (!found.networks.has(name)) {
      found.findings.error(at, `names the network ${name}, which networks at the top does not have`);
      return [];
    }
    const aliases = [service];
    const keys: Keys<Surroundings> = {
      aliases: (it) =>
        aliases.push(
          ...readList(it, found).flatMap(
            (alias) => readMatching(alias, /^[A-Za-z0-9][\w.-]{0,62}$/, 'must be a name', found) ?? [],
          ),
        ),
      priority: withoutEffect('the first network is the first'),
    };
    if (settings !== undefined && !isBlank(settings))
      readKeys(settings, keys, found, {
        ipv4_address: 'addresses are given by the server',
        ipv6_address: 'addresses are given by the server',
        mac_address: 'addresses are given by the server',
        link_local_ips: 'addresses are given by the server',
        driver_opts: 'networks are those of Setpoint',
      });
    return [{ name, aliases: [...new Set(aliases)] }];
  });
  return networks.length > 0 ? networks : [{ name: 'default', aliases: [service] }];
}

const capabilityName = /^(?:CAP_)?([A-Z_]{3,32})$/;

function readCapabilities(node: Node, found: Surroundings): string[] {
  return readList(node, found).flatMap((it) => {
    const text = readMatching(it, capabilityName, 'must be a capability such as CHOWN, or ALL', found);
    const name = text?.replace(/^CAP_/, '');
    if (name === undefined || name === 'ALL') return name ?? [];
    // one that no instance has is dropped already
    return Capability.safeParse(name).data ?? [];
  });
}

function addedCapabilities(node: Node, found: Surroundings): string[] {
  return readList(node, found).flatMap((it) => {
    const text = readText(it, found) ?? '';
    const capability = Capability.safeParse(text.replace(/^CAP_/, ''));
    if (capability.success) return [capability.data];
    found.findings.error(it, `is refused: no instance may have more rights than ${Capability.options.join(', ')}`);
    return [];
  });
}

function onlyNoNewPrivileges(node: Node, found: Surroundings): void {
  for (const it of readList(node, found))
    if (!/^no-new-privileges(?:[:=]true)?$/.test(readText(it, found) ?? ''))
      found.findings.error(it, 'is refused: only no-new-privileges:true may be there, which holds anyway');
}

function ownLabels(node: Node, found: Surroundings): void {
  const names = node.type === 'list' ? texts(node, found) : [...readMap(node, found).keys()];
  const ours = names.find((name) => /^(?:io\.)?setpoint\b/i.test(name));
  if (ours !== undefined) found.findings.error(node, 'is refused: labels that begin with setpoint belong to Setpoint');
  else found.findings.warn(node, 'has no effect: Setpoint keeps no labels of services');
}

/** Each path has one meaning. */
function checkPaths({ mounts, files }: ServiceDraft['service'], node: Node, { findings }: Surroundings): void {
  const seen = new Set<string>();
  for (const { path } of [...mounts, ...files]) {
    if (seen.has(path)) findings.error(node, `mounts two things at ${path}`);
    seen.add(path);
  }
}

/** The ports without those that are there twice: `expose` may repeat `ports`. */
function distinct(ports: PlainComposedService['ports']): PlainComposedService['ports'] {
  const published = new Set(ports.flatMap(({ port, publish }) => (publish === undefined ? [] : [port])));
  const seen = new Set<string>();
  return ports.filter(({ port, publish }) => {
    const key = `${port}:${publish ?? ''}`;
    if (seen.has(key) || (publish === undefined && published.has(port))) return false;
    seen.add(key);
    return true;
  });
}
