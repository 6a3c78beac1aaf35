import type { WireAssignment, WireItem, WireService } from '../../agent-protocol/assignment.ts';
import type { TaskSpec } from '../../agent-protocol/task-types.ts';
import type { ServiceSpec } from '../../store/kinds/assignment.ts';

/** Settings of a service in short: one network, one port, a probe by HTTP. */
export interface ShortSettings {
  network?: string;
  alias?: string;
  port?: number;
  /** Port of the server. */
  publish_port?: number;
  health?: { path: string };
  memory_bytes?: number;
  nano_cpus?: number;
}

/** How a service is to run, in the store. */
export function serviceSpec(overrides: Partial<ServiceSpec> & ShortSettings = {}): ServiceSpec {
  const { network = 'n', alias = 'web', port, publish_port, health, memory_bytes, nano_cpus, ...rest } = overrides;
  const inside = port ?? publish_port;
  const publish = publish_port === undefined ? {} : { publish: publish_port };
  return {
    type: 'service',
    slot: 0,
    image: 'example/web:1',
    networks: [{ name: network, aliases: [alias] }],
    ports: inside === undefined ? [] : [{ name: 'main', port: inside, ...publish }],
    mounts: [],
    files: [],
    image_check: false,
    min_healthy_seconds: 10,
    drain_seconds: 0,
    ...(health !== undefined &&
      port !== undefined && { probe: { type: 'http', port, path: health.path, ...probeTimes } }),
    limits: {
      ...(memory_bytes !== undefined && { memory_bytes }),
      ...(nano_cpus !== undefined && { nano_cpus }),
    },
    read_only_root: false,
    capabilities: { drop: [], add: [] },
    restart_policy: 'always',
    grace_seconds: 10,
    ...rest,
  };
}

/** How an image is to be built, in the store and on the wire. */
export function buildSpec(overrides: Partial<TaskSpec<'build'>> = {}): Omit<TaskSpec<'build'>, 'git_credential'> {
  return {
    type: 'build',
    repository_url: 'https://git.example.test/app.git',
    branch: 'main',
    dockerfile_path: 'Dockerfile',
    build_context: '.',
    build_args: {},
    image: 'setpoint/web:1',
    deadline_seconds: 600,
    attempt: 1,
    ...overrides,
  };
}

export const probeTimes = { interval_seconds: 10, timeout_seconds: 5, failures: 3, successes: 1, start_seconds: 30 };

/** How a service on the wire is to run. `env`: the variables of a configuration that comes with the item. */
export function wireService(
  overrides: Partial<WireService> & ShortSettings & { env?: Record<string, string> } = {},
): WireService {
  const { env = {}, config, configuration, ...rest } = overrides;
  const own = configuration ?? (config === undefined ? { env } : undefined);
  return {
    ...serviceSpec(rest),
    ...(config !== undefined && { config }),
    ...(own !== undefined && { configuration: own }),
  } as WireService; // the form of `config` is the only difference
}

/** An item on the wire. */
export function wireItem(id: string, overrides: Partial<WireAssignment> = {}): WireAssignment {
  return {
    id,
    generation: 1,
    spec_hash: 'hash',
    tenant: 'acme',
    project_id: 'p',
    environment_id: 'e',
    workload_kind: 'application',
    workload_id: 'w',
    workload_name: 'web',
    service: 'main',
    run: 'running',
    spec: wireService(),
    ...overrides,
  };
}

/** An item as releases without the capability `services` have it: with its variables, or a reference to them. */
export function earlierItem(id: string, settings: Record<string, unknown> = {}): WireItem {
  const { service: _, ...item } = wireItem(id);
  const spec = { type: 'service', slot: 0, image: 'example/web:1', restart_policy: 'always', grace_seconds: 10 };
  const own = settings['config'] === undefined ? { env: {} } : {};
  return { ...item, deployment_id: 'd', spec: { ...spec, network: 'n', alias: 'web', ...own, ...settings } };
}
