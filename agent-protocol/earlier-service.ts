import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { mainPort, RestartPolicy, service } from './workload.ts';

/**
 * The settings of a service in releases before the capability `services`: one network, one name in it, at most one port
 * and a probe by HTTP. Stores and disks of agents have such records, so they are read in every later release; they are
 * written only for agents without that capability.
 */
const EarlierService = z.object({
  type: z.literal('service'),
  slot: z.int(),
  image: z.string(),
  image_digest: z.string().optional(),
  command: z.array(z.string()).optional(),
  port: z.int().optional(),
  /** Port of the server that leads to `port`. */
  publish_port: z.int().optional(),
  health: z.object({ path: z.string() }).optional(),
  memory_bytes: z.int().optional(),
  nano_cpus: z.int().optional(),
  restart_policy: RestartPolicy,
  restart_token: z.string().optional(),
  grace_seconds: z.int().default(10),
  network: z.string(),
  alias: z.string(),
});
export type EarlierService = z.infer<typeof EarlierService>;

/** Returns such settings in the present form, and all others as they are. `config` stays. */
export function fromEarlier(spec: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  if (spec['type'] !== 'service' || typeof spec['network'] !== 'string') return spec;
  const parsed = EarlierService.safeParse(spec);
  if (!parsed.success) return spec;
  const { network, alias, port, publish_port: publish, health, memory_bytes, nano_cpus, ...same } = parsed.data;
  const inside = port ?? publish;
  return {
    ...same,
    ...(spec['config'] !== undefined && { config: spec['config'] }),
    networks: [{ name: network, aliases: [alias] }],
    ports: inside === undefined ? [] : [{ name: mainPort, port: inside, ...(publish !== undefined && { publish }) }],
    ...(health !== undefined && port !== undefined && { probe: { type: 'http', port, path: health.path } }),
    limits: { ...(memory_bytes !== undefined && { memory_bytes }), ...(nano_cpus !== undefined && { nano_cpus }) },
  };
}

const Present = service(z.unknown());

/**
 * Settings of later releases without which an instance runs all the same: an agent that does not know them judges and
 * ends it in its own way.
 */
const dispensable = { image_check: undefined, min_healthy_seconds: undefined, drain_seconds: undefined };

/** Returns the settings in the earlier form, without `config`; `undefined` if they have what that form cannot express. */
export function toEarlier(spec: Omit<z.infer<typeof Present>, 'config'>): EarlierService | undefined {
  const { networks, ports, probe, limits, ...same } = spec;
  const [network] = networks;
  const [port] = ports;
  const earlier = EarlierService.safeParse({
    ...same,
    network: network.name,
    alias: network.aliases[0],
    port: port?.port,
    publish_port: port?.publish,
    health: probe?.type === 'http' ? { path: probe.path } : undefined,
    memory_bytes: limits.memory_bytes,
    nano_cpus: limits.nano_cpus,
  }).data;
  if (earlier === undefined) return undefined;
  const { config: _, ...wanted } = Present.parse({ ...spec, ...dispensable });
  return isDeepStrictEqual(Present.parse(fromEarlier(earlier)), wanted) ? earlier : undefined;
}
