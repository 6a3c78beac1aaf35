import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { Mount, ServiceFile } from '../../agent-protocol/workload.ts';
import { canonicalJson } from '../../store/canonical-json.ts';
import { ServiceSpec } from '../../store/kinds/assignment.ts';
import type { BuildSpec } from '../../store/kinds/assignment.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';

/** Settings whose change a running container can follow. The configuration is the same for all of a version. */
const followed: readonly (keyof ServiceSpec)[] = [
  'image_digest',
  'config',
  'ports',
  'probe',
  'image_check',
  'min_healthy_seconds',
  'drain_seconds',
  'restart_policy',
  'restart_token',
  'grace_seconds',
  'ingress',
];

/** Values with all their defaults. */
const blank = {
  service: ServiceSpec.parse({
    type: 'service',
    slot: 0,
    image: '',
    networks: [{ name: '', aliases: [] }],
    restart_policy: 'always',
  }),
  volume: Mount.parse({ type: 'volume', volume: '', path: '' }),
  tmpfs: Mount.parse({ type: 'tmpfs', path: '', size_bytes: 0 }),
  file: ServiceFile.parse({ path: '' }),
};

/**
 * Returns the hash of the settings whose change requires a new container. It never covers ciphertext, so that a rotation
 * of keys restarts nothing.
 *
 * Equal settings have equal hashes in all releases, as another hash restarts what runs. The settings that the first
 * release had are hashed in its form and order. All others count only where they differ from their defaults, so that a
 * release that adds a setting changes no hash.
 */
export function serviceHash(version: string, spec: DeepReadonly<ServiceSpec>): string {
  const { networks, ports, limits } = spec;
  const { memory_bytes, nano_cpus, ...otherLimits } = limits;
  const [network] = networks;
  const first = {
    type: spec.type,
    slot: spec.slot,
    image: spec.image,
    command: spec.command,
    port: ports[0]?.port,
    memory_bytes,
    nano_cpus,
    network: network.name,
    alias: network.aliases[0],
  };
  const later: Record<string, unknown> = changes(spec, blank.service);
  for (const name of ['type', 'slot', 'image', 'command', ...followed]) delete later[name];
  if (networks.length === 1 && network.aliases.length <= 1) delete later['networks'];
  if (spec.mounts.length > 0)
    later['mounts'] = spec.mounts.map((mount) => ({ type: mount.type, ...changes(mount, blank[mount.type]) }));
  if (spec.files.length > 0) later['files'] = spec.files.map((file) => changes(file, blank.file));
  later['limits'] = Object.values(otherLimits).some((limit) => limit !== undefined) ? otherLimits : undefined;
  const parts = [JSON.stringify(version), JSON.stringify(first)];
  const settings = canonicalJson(later);
  if (settings !== '{}') parts.push(settings);
  return sha256(`[${parts.join(',')}]`);
}

/**
 * Returns the hash of what a build does. It covers the names of arguments and secrets, not their values, which are sealed. The
 * form and the order are those of the first release, as another hash begins a running build anew: what came later is at its
 * end, and counts only where it is given. Of a credential the id counts, so that its rotation begins nothing anew.
 */
export function buildHash(version: string, spec: DeepReadonly<BuildSpec>): string {
  const { repository_url, branch, dockerfile_path, build_context, commit, type, image, deadline_seconds, attempt } =
    spec;
  const { git_credential, generate, submodules, dockerfile_text, target } = spec;
  const build_secrets = spec.build_secrets && Object.keys(spec.build_secrets).toSorted();
  const build_args = Object.keys(spec.build_args).toSorted();
  const files = spec.files && Object.keys(spec.files).toSorted();
  const first = { repository_url, branch, dockerfile_path, build_context, build_args };
  return sha256(
    JSON.stringify([
      version,
      {
        ...first,
        commit,
        type,
        image,
        deadline_seconds,
        attempt,
        git_credential,
        build_secrets,
        generate,
        submodules,
        dockerfile_text,
        target,
        files,
      },
    ]),
  );
}

/** Returns the fields that differ from those of the blank value. */
function changes(value: object, blank: object): Record<string, unknown> {
  const defaults = new Map(Object.entries(blank));
  return Object.fromEntries(Object.entries(value).filter(([name, it]) => !isDeepStrictEqual(defaults.get(name), it)));
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
