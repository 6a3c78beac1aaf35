import type { SurveyedContainer } from '../../agent-protocol/survey.ts';

/** What made a container, as its labels, its name and its networks tell. `docker`: a user, by hand or by a script. */
export const makers = ['docker', 'compose', 'stack', 'swarm', 'coolify', 'dokploy', 'caprover'] as const;
export type Maker = (typeof makers)[number];

export interface Origin {
  maker: Maker;
  /** What was made together, such as a compose project. */
  group: string;
  /** Its part of the group, in words. */
  service: string;
  /** Containers of one identity are copies of each other. */
  identity: string;
  /** It belongs to the tool that made it and to no application. */
  isTool: boolean;
  /** The service of a swarm, which starts its containers again when they stop. */
  swarmService?: string;
}

type Seen = Pick<SurveyedContainer, 'name' | 'labels' | 'networks'>;

const label = {
  composeProject: 'com.docker.compose.project',
  composeService: 'com.docker.compose.service',
  stack: 'com.docker.stack.namespace',
  swarmService: 'com.docker.swarm.service.name',
} as const;

/** Containers of the tools themselves, by the names of their containers or services. */
const tools: readonly [maker: Maker, name: RegExp][] = [
  ['coolify', /^coolify(?:-(?:db|redis|realtime|proxy|sentinel|helper|testing-host))?$/],
  ['dokploy', /^dokploy(?:-(?:postgres|redis|traefik|monitoring))?$/],
  ['caprover', /^captain-(?:captain|nginx|certbot|registry|netdata-container|goaccess-container)$/],
];

/** The network that each tool puts all of its applications in. */
const dokployNetwork = 'dokploy-network';
/** How CapRover names the services of its applications. */
const capRoverService = /^srv-captain--(?<name>.+)$/;

/** Networks that the engine or a tool puts containers in that have nothing else to do with each other. */
const networksOfTools: ReadonlySet<string> = new Set(['coolify', dokployNetwork, 'captain-overlay-network']);
const networksOfEngine: ReadonlySet<string> = new Set(['bridge', 'host', 'none', 'ingress', 'docker_gwbridge']);

/** What a network joins: containers of one purpose, all that a tool made, or all on the engine. */
export function scopeOf(network: string): 'own' | 'tool' | 'engine' {
  if (networksOfTools.has(network)) return 'tool';
  return networksOfEngine.has(network) ? 'engine' : 'own';
}

/** Makers that lead domains to what they run, and start it again by themselves. */
export const platforms: ReadonlySet<Maker> = new Set(['coolify', 'dokploy', 'caprover']);

/** How people call what made it. */
export const makerNames: Readonly<Record<Maker, string>> = {
  docker: 'Docker',
  compose: 'Docker Compose',
  stack: 'a stack of Docker Swarm',
  swarm: 'Docker Swarm',
  coolify: 'Coolify',
  dokploy: 'Dokploy',
  caprover: 'CapRover',
};

/** The compose projects of Dokploy: those with a container in its network. Its other containers do not show it. */
export function projectsOfDokploy(containers: readonly Seen[]): ReadonlySet<string> {
  const seen = containers.filter(({ networks }) => networks.includes(dokployNetwork));
  return new Set(seen.flatMap(({ labels }) => labels[label.composeProject] ?? []));
}

/** Who made a container, and what belongs to it. `ofDokploy`: see {@link projectsOfDokploy}. */
export function originOf(it: Seen, ofDokploy: ReadonlySet<string>): Origin {
  const { labels, name } = it;
  const swarmService = labels[label.swarmService];
  const called = swarmService ?? labels[label.composeService] ?? name;
  const swarm = swarmService !== undefined && { swarmService };
  const tool = tools.find(([, names]) => names.test(swarmService ?? name));
  if (tool !== undefined)
    return { maker: tool[0], group: tool[0], service: called, identity: called, isTool: true, ...swarm };
  const made = madeBy(it, called, ofDokploy);
  const identity = made.maker === 'coolify' ? identityOfCoolify(labels, called) : `${made.group}/${called}`;
  return { ...made, identity, isTool: false, ...swarm };
}

function madeBy(
  { labels, name, networks }: Seen,
  called: string,
  ofDokploy: ReadonlySet<string>,
): Pick<Origin, 'maker' | 'group' | 'service'> {
  const project = labels[label.composeProject];
  const stack = labels[label.stack];
  const captain = capRoverService.exec(labels[label.swarmService] ?? '')?.groups?.['name'];
  if (captain !== undefined) return { maker: 'caprover', group: captain, service: captain };
  if (labels['coolify.managed'] === 'true') return ofCoolify(labels, project ?? name, called);
  if (networks.includes(dokployNetwork) || (project !== undefined && ofDokploy.has(project)))
    return { maker: 'dokploy', group: project ?? stack ?? called, service: withoutPrefix(called, stack) };
  if (project !== undefined) return { maker: 'compose', group: project, service: called };
  if (stack !== undefined) return { maker: 'stack', group: stack, service: withoutPrefix(called, stack) };
  if (labels[label.swarmService] !== undefined) return { maker: 'swarm', group: called, service: called };
  return { maker: 'docker', group: name, service: name };
}

/** Coolify names containers by ids; its labels have the names that people know. */
function ofCoolify(labels: Seen['labels'], group: string, called: string): Pick<Origin, 'maker' | 'group' | 'service'> {
  const project = labels['coolify.projectName'];
  const environment = labels['coolify.environmentName'];
  const resource = labels['coolify.resourceName'] ?? labels['coolify.name'];
  // the services of one compose file share the name of the resource
  const part = labels['coolify.type'] === 'service' ? (labels['coolify.service.subName'] ?? called) : resource;
  const known = [project, environment].filter((text) => text !== undefined && text !== '').join('/');
  return { maker: 'coolify', group: known === '' ? group : known, service: part ?? called };
}

/** Names of its objects may be alike, and each rollout has containers of other names. */
function identityOfCoolify(labels: Seen['labels'], called: string): string {
  const id = ['applicationId', 'databaseId'].map((name) => labels[`coolify.${name}`]).find((one) => one !== undefined);
  const request = labels['coolify.pullRequestId'] ?? '0';
  return id === undefined ? called : `${labels['coolify.type'] ?? 'application'}/${id}/${request}`;
}

/** Services of a stack are named `STACK_SERVICE`. */
function withoutPrefix(service: string, stack: string | undefined): string {
  return stack !== undefined && service.startsWith(`${stack}_`) ? service.slice(stack.length + 1) : service;
}
