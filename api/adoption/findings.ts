import type { SurveyedContainer } from '../../agent-protocol/survey.ts';
import { withheld } from '../../agent-protocol/survey.ts';
import { GrantedCapability } from '../../agent-protocol/workload.ts';
import { registryOf } from '../resources/fields.ts';
import { databaseOf, referenceOf } from './image.ts';
import { makerNames, platforms, scopeOf } from './origin.ts';
import { faultOfName } from '../../store/kinds/variables.ts';
import { shellWord } from '../../store/shell-word.ts';
import type { Unit } from './units.ts';

/** What stands against taking a container over, or changes by it. `no` and `with_a_stop` decide whether it is possible. */
export interface Finding {
  /** Stable: programs know it. */
  code: string;
  effect: 'no' | 'with_a_stop' | 'note';
  message: string;
}

/** A project and an environment, by name, with the names that are taken there: folded, with the ids of what has them. */
export interface Destination {
  project: string;
  environment: string;
  applications: ReadonlyMap<string, string>;
  volumes: ReadonlyMap<string, string>;
}

/** What the plan has to know of the server and its tenant. */
export interface Ground {
  server: { id: string; name: string; opensPorts: boolean };
  /** Where it is to be; absent: its user has not said it yet. */
  place?: Destination;
  /** `registry`: `HOST` or `HOST:PORT`. */
  isAllowedRegistry: (registry: string) => boolean;
}

/** All units of the server, by the volumes that they mount. */
export type Users = ReadonlyMap<string, readonly { unit: Unit; isReadOnly: boolean }[]>;

/** The project as a word of a command. */
export function projectWord({ place }: Pick<Ground, 'place'>): string {
  return place === undefined ? 'PROJECT' : shellWord(place.project);
}

type Look = (unit: Unit, ground: Ground, users: Users, units: readonly Unit[]) => Finding[];

const no = (code: string, message: string): Finding => ({ code, effect: 'no', message });
const stop = (code: string, message: string): Finding => ({ code, effect: 'with_a_stop', message });
const note = (code: string, message: string): Finding => ({ code, effect: 'note', message });

/** Everything that was found about a unit; the worst decides. */
export function findingsOf(unit: Unit, ground: Ground, users: Users, units: readonly Unit[]): Finding[] {
  if (unit.origin.isTool)
    return [
      no(
        'tool',
        `It is a part of ${makerNames[unit.origin.maker]} itself: remove it once everything has moved out of it`,
      ),
    ];
  return looks.flatMap((look) => look(unit, ground, users, units));
}

const state: Look = ({ first, isRunning, origin }) => {
  const isOnce = first.labels['com.docker.compose.oneoff'] === 'True' || first.restart === 'no';
  if (!isRunning && isOnce && origin.swarmService === undefined)
    return [
      no(
        'job',
        'It ended and is not started again: an application runs all the time. Leave it, or run it where it is needed',
      ),
    ];
  if (!isRunning) return [note('not_running', 'It does not run now: move it only if it is still needed')];
  if (first.state === 'restarting')
    return [note('restarting', 'It keeps restarting, and would do so as an application: look at its log first')];
  return [];
};

const image: Look = ({ first: { image: it, labels } }, { isAllowedRegistry }) => {
  if (!it.is_here)
    return [
      no('image_gone', `The engine has image ${it.name} no more: pull it, so that it is known what it is made with`),
    ];
  const reference = referenceOf(it);
  const source = labels['org.opencontainers.image.source'];
  const from = source === undefined ? 'its repository' : `its repository (${source})`;
  if (reference === undefined)
    return [
      no(
        'image_unnamed',
        `Its image has no name and no registry knows it: deploy it from ${from}, or push the image to a registry`,
      ),
    ];
  if (reference.includes('@')) {
    const registry = registryOf(reference) ?? 'docker.io';
    return isAllowedRegistry(registry)
      ? []
      : [
          no(
            'registry_not_allowed',
            `Its image is of registry ${registry}, which the settings of the tenant do not allow: a superadmin can allow it (setpoint settings set registries=…)`,
          ),
        ];
  }
  if (it.is_shared)
    return [
      note(
        'local_image',
        `Image ${it.name} is on this server only: no registry has it. Keep it there, or push it to a registry`,
      ),
    ];
  return [
    no(
      'local_image',
      `Image ${it.name} is on this server only: deploy it from ${from}, push it to a registry, or let the operator of the machine share it (SETPOINT_LOCAL_IMAGES=${it.name} of the agent)`,
    ),
  ];
};

const command: Look = ({ first }) =>
  first.command?.some((word) => word.includes(withheld)) === true
    ? [
        no(
          'secret_in_command',
          'Its command seems to have a secret in it, and members of a project can read the command of an application: let its program read the secret from a variable, then look again',
        ),
      ]
    : [];

const ports: Look = ({ first }, ground) => {
  const { server } = ground;
  const published = first.ports.filter(({ server_port: port }) => port > 0);
  const [some] = published;
  if (some === undefined) return [];
  const others = published.filter(({ protocol }) => protocol !== 'tcp');
  if (others.length > 0)
    return [
      no(
        'protocol',
        `Ports of the server lead to it by ${[...new Set(others.map((one) => one.protocol))].join(', ')}: those of applications are TCP only`,
      ),
    ];
  if (new Set(published.map(({ port }) => port)).size > 1)
    return [
      no(
        'several_ports',
        `Ports ${list(published.map((one) => one.server_port))} of the server lead to several ports of it: an application has one. Move what needs one only, or put a proxy before it`,
      ),
    ];
  const found: Finding[] = [];
  const { port } = some;
  const isSame = published.some((one) => one.server_port === port);
  if (isSame)
    found.push(
      stop(
        'port_taken',
        `Port ${port} of the server is its own until it stops: an application is refused a port that another program has`,
      ),
    );
  else
    found.push(
      stop(
        'port_changes',
        `Port ${list(published.map((one) => one.server_port))} of the server leads to its port ${port}: an application is reached at the port that it listens on. Let its program listen on the port that clients use, or let clients use ${port}`,
      ),
    );
  if (!server.opensPorts)
    found.push(
      note(
        'ports_closed',
        `Server ${server.name} opens no ports of applications: setpoint ports ${shellWord(server.name)} --open`,
      ),
    );
  if (port < 1024)
    found.push(
      note(
        'port_bound',
        `A port below 1024 is given to a project first: setpoint ports ${shellWord(server.name)} --bind ${port}=${projectWord(ground)}`,
      ),
    );
  if (published.every(({ address }) => /^127\.|^::1$/.test(address)))
    found.push(
      note(
        'port_local',
        `Its port is open to the server itself only: that of an application is open to all addresses of the server`,
      ),
    );
  return found;
};

const clockFiles = /^\/(?:etc\/(?:localtime|timezone)|usr\/share\/zoneinfo(?:\/.*)?)$/;

const folders: Look = ({ first }) =>
  first.mounts.flatMap(({ type, source, path }): Finding[] => {
    if (type === 'volume') return [];
    if (type === 'tmpfs')
      return [note('tmpfs', `${path} is in memory: in an application it is on the disk of the server`)];
    if (/(?:^|\/)(?:docker|containerd|podman)\.sock$/.test(source))
      return [
        no(
          'engine_socket',
          `It controls the container engine of the server by ${source}, and with it the whole machine: an application may not. Run it beside Setpoint`,
        ),
      ];
    if (clockFiles.test(source))
      return [
        note(
          'clock_files',
          `${path} of the server is not mounted: set the variable TZ if its program needs the time zone`,
        ),
      ];
    if (type === 'bind')
      return [
        no(
          'host_folder',
          `It mounts ${source} of the server at ${path}, and an application mounts volumes only: copy what is there into a volume of Docker, or into the image, run it so, then look again`,
        ),
      ];
    return [no('mount', `It mounts ${path} in a way that applications have not: ${type}`)];
  });

/** Names of what shares a volume with it. */
const sharers = (unit: Unit, users: Users, volume: string): string[] =>
  (users.get(volume) ?? []).flatMap((one) => (one.unit === unit ? [] : [one.unit.name]));

const volumes: Look = (unit, _, users) => {
  const mounted = unit.first.mounts.filter(({ type }) => type === 'volume');
  if (mounted.length === 0)
    return databaseOf(unit.first.image) === undefined
      ? []
      : [
          no(
            'data_inside',
            'It is a database whose data is in the container itself, and ends with it: dump it, and load the dump into an application with a volume',
          ),
        ];
  return mounted.flatMap(({ source, read_only: isReadOnly }): Finding[] => {
    const others = sharers(unit, users, source);
    if (others.length > 0)
      return [
        no(
          'shared_volume',
          `Volume ${source} is mounted by ${list(others)}, too: a volume of Setpoint has one application`,
        ),
      ];
    if (isReadOnly)
      return [
        note(
          'volume_copied',
          `What is in volume ${source} is copied into a volume of Setpoint, while it runs: nothing writes to it`,
        ),
      ];
    if (unit.all.length > 1)
      return [
        no(
          'several_writers',
          `${unit.all.length} containers write to volume ${source}: an application that writes to a volume has one instance`,
        ),
      ];
    return [
      stop(
        'volume_copied',
        `What is in volume ${source} is copied into a volume of Setpoint while it is stopped: a copy of files that change is not sound`,
      ),
    ];
  });
};

const networks: Look = (unit, _, __, units) => {
  const own = unit.first.networks.filter((name) => scopeOf(name) === 'own');
  // the proxy of a tool is in the network of every application
  const others = units.filter(
    (one) => one !== unit && !one.origin.isTool && one.first.networks.some((name) => own.includes(name)),
  );
  if (others.length > 0) {
    const message = `It shares network ${list(own)} with ${list(others.map(({ name }) => name))}, which reach each other by names there. In Setpoint they reach each other by the internal_id of each application: move them together, and change the variables that name them`;
    return [stop('shared_network', message)];
  }
  const wide = unit.first.networks.filter((name) => scopeOf(name) === 'tool');
  if (wide.length === 0) return [];
  const message = `In network ${list(wide)} others reach it by its name, and it reaches them: change the variables that name what moves`;
  return [note('tool_network', message)];
};

const hosts = /Host(?:SNI)?\(([^)]*)\)/g;

/** Domains that the labels of a proxy lead to a container. */
function domainsOf({ labels }: SurveyedContainer): string[] {
  const rules = Object.entries(labels).flatMap(([name, rule]) => (name.endsWith('.rule') ? [rule] : []));
  const named = rules.flatMap((rule) => [...rule.matchAll(hosts)].flatMap(([, inner = '']) => inner.split(',')));
  return [...new Set(named.map((one) => one.replaceAll(/[`'"\s]/g, '')).filter((one) => /^[\w.*-]+$/.test(one)))];
}

const domains: Look = ({ first, origin }) => {
  const named = domainsOf(first);
  if (named.length > 0)
    return [
      note(
        'domains',
        `Requests for ${list(named)} go on to the old container by the proxy of the server: lead them to the port of the application once it serves`,
      ),
    ];
  return platforms.has(origin.maker) && databaseOf(first.image) === undefined
    ? [
        note(
          'domains',
          `${makerNames[origin.maker]} leads its domains to it: lead them to the port of the application once that serves`,
        ),
      ]
    : [];
};

const variables: Look = ({ first: { env } }) => {
  const odd = env.filter((name) => faultOfName(name) !== undefined);
  return odd.length === 0 ? [] : [no('variables', `An application cannot have a variable of this name: ${list(odd)}`)];
};

const swarm: Look = ({ origin }) =>
  origin.swarmService === undefined
    ? []
    : [
        note(
          'swarm_ports',
          `Ports that the swarm publishes are not seen on a container: docker service inspect ${origin.swarmService} --format '{{json .Endpoint.Ports}}'`,
        ),
      ];

/** What was added to the capabilities of a container, of which each can be granted to an application. */
export function grantsOf({ first: { settings: all } }: Pick<Unit, 'first'>): GrantedCapability[] | undefined {
  const value = all.find(({ name }) => name === 'capabilities')?.value;
  return value === undefined || !isGrantable(value) ? undefined : grantsIn(value);
}

function isGrantable(value: string): boolean {
  return grantsIn(value).length === value.split(', ').length;
}

function grantsIn(value: string): GrantedCapability[] {
  return value.split(', ').flatMap((one) => GrantedCapability.safeParse(one).data ?? []);
}

/** Settings that an application does not have: what it means that they are missing. */
const settings: Readonly<Record<string, (value: string) => Finding>> = {
  privileged: () =>
    no(
      'privileged',
      'It is privileged, which is the same as root on the server: an application is not. Run it beside Setpoint, or without privileges',
    ),
  capabilities: (value) =>
    isGrantable(value)
      ? note(
          'capabilities',
          `It has rights of the kernel that an administrator grants: ${value}. It keeps them if it is taken over; else grant them to the application: setpoint grant APPLICATION ${value.replaceAll(',', '')}`,
        )
      : no(
          'capabilities',
          `It has rights of the kernel that no application has: ${value}. Run it without them, or beside Setpoint`,
        ),
  security_options: (value) =>
    no('security_options', `It runs under other rules of the kernel: ${value}. An application has the usual ones`),
  devices: (value) => no('devices', `It uses devices of the server: ${value}. An application has none`),
  gpus: () => no('gpus', 'It uses processors for graphics: an application has none'),
  runtime: (value) => no('runtime', `It runs by another runtime than the usual one: ${value}`),
  network_mode: (value) =>
    no(
      'network_mode',
      `Its network is ${value === 'host' ? 'that of the server' : value}: an application is in the network of its environment, and is reached at one port`,
    ),
  pid_mode: (value) => no('pid_mode', `It sees the processes of ${value}: an application sees its own`),
  ipc_mode: (value) => no('ipc_mode', `It shares memory with ${value}: an application has its own`),
  uts_mode: (value) => no('uts_mode', `It has the host name of ${value}: an application has its own`),
  userns_mode: (value) => no('userns_mode', `Its users are those of ${value}: an application has the usual ones`),
  entrypoint: () =>
    no(
      'entrypoint',
      'It replaces the entrypoint of its image, and an application only the command: put the entrypoint into an image of its own',
    ),
  long_command: () => no('long_command', 'Its command is too long for an application: put it into a file of its image'),
  user: (value) =>
    no(
      'user',
      `It runs as user ${value} and its image as another one: an application runs as the user of its image. Set USER in the image`,
    ),
  working_dir: (value) =>
    no('working_dir', `It begins in folder ${value} and its image in another one: set WORKDIR in the image`),
  groups: (value) => no('groups', `It is in further groups: ${value}. An application is not`),
  extra_hosts: (value) =>
    no('extra_hosts', `It has names of its own in /etc/hosts: ${value}. Let its program use names that DNS knows`),
  links: (value) =>
    no('links', `It reaches others by links: ${value}. Let it reach them by a network, then look again`),
  sysctls: (value) => no('sysctls', `It sets parameters of the kernel: ${value}. An application has the usual ones`),
  dns: (value) => note('dns', `It asks the name servers ${value}: an application asks those of the server`),
  ulimits: (value) => note('ulimits', `Its own limits are not kept: ${value}`),
  shm: (value) => note('shm', `Its /dev/shm has ${value}: that of an application has 64 MiB`),
  tmpfs: (value) => note('tmpfs', `${value} is in memory: in an application it is on the disk of the server`),
  init: () =>
    note('init', 'The engine reaps its child processes (--init): in an application its own first process does'),
  stop_signal: (value) =>
    note('stop_signal', `It is stopped by ${value}: an application is stopped by the signal of its image`),
  read_only_root: () =>
    note('read_only_root', 'It can write into its mounts only: an application can write into its own layer, too'),
  dropped_capabilities: (value) => note('dropped_capabilities', `It gave up rights that an application has: ${value}`),
};

const furtherSettings: Look = ({ first }) =>
  first.settings.map(({ name, value }) => {
    const known = Object.hasOwn(settings, name) ? settings[name] : undefined;
    return (
      known?.(value) ??
      no(name, `It has a setting that this release does not know: ${name}. Upgrade the control plane, and look again`)
    );
  });

const looks: readonly Look[] = [
  state,
  image,
  command,
  furtherSettings,
  folders,
  ports,
  volumes,
  networks,
  variables,
  domains,
  swarm,
];

const mostNamed = 10;

/** The first of some names, with how many more there are. */
export function list(names: readonly (string | number)[]): string {
  const distinct = [...new Set(names)];
  const shown = distinct.slice(0, mostNamed).join(', ');
  return distinct.length > mostNamed ? `${shown} and ${distinct.length - mostNamed} more` : shown;
}
