import { expect, test } from 'vitest';
import { compose } from './compose-text.ts';

/** What becomes of a key: it changes what is read, is told to have no effect, says what holds anyway, or is refused. */
type Fate = 'kept' | 'no effect' | 'holds anyway' | 'refused';
type Row = readonly [key: string, value: string, fate: Fate];

/** Every key of the compose specification, by the place at which it stands; values are YAML on one line. */
const specification: Readonly<Record<string, readonly Row[]>> = {
  service: [
    ['annotations', '{a: b}', 'no effect'],
    ['attach', 'false', 'holds anyway'],
    ['blkio_config', '{weight: 300}', 'refused'],
    ['build', './web', 'kept'],
    ['cap_add', '[NET_BIND_SERVICE]', 'kept'],
    ['cap_drop', '[ALL]', 'kept'],
    ['cgroup', 'host', 'refused'],
    ['cgroup_parent', 'm-executor', 'refused'],
    ['command', '[serve]', 'kept'],
    ['configs', '[settings]', 'kept'],
    ['container_name', 'web', 'refused'],
    ['cpu_count', '2', 'refused'],
    ['cpu_percent', '50', 'refused'],
    ['cpu_period', '100000', 'refused'],
    ['cpu_quota', '50000', 'refused'],
    ['cpu_rt_period', "'1400us'", 'refused'],
    ['cpu_rt_runtime', "'400ms'", 'refused'],
    ['cpu_shares', '512', 'no effect'],
    ['cpus', '0.5', 'kept'],
    ['cpuset', '0-1', 'refused'],
    ['credential_spec', '{file: c.json}', 'refused'],
    ['depends_on', '[other]', 'kept'],
    ['deploy', '{replicas: 2}', 'kept'],
    ['develop', '{watch: []}', 'refused'],
    ['device_cgroup_rules', "['c 1:3 mr']", 'refused'],
    ['devices', '[/dev/fuse]', 'refused'],
    ['dns', '8.8.8.8', 'refused'],
    ['dns_opt', '[use-vc]', 'refused'],
    ['dns_search', 'example.com', 'refused'],
    ['domainname', 'example.com', 'refused'],
    ['driver_opts', '{a: b}', 'refused'],
    ['entrypoint', '[/run]', 'kept'],
    ['env_file', 'web.env', 'kept'],
    ['environment', '{A: b}', 'kept'],
    ['expose', "['9090']", 'kept'],
    ['extends', '{service: other}', 'refused'],
    ['external_links', '[redis]', 'refused'],
    ['extra_hosts', "['a:127.0.0.1']", 'refused'],
    ['gpus', 'all', 'refused'],
    ['group_add', '[mail]', 'refused'],
    ['healthcheck', '{test: [CMD, check]}', 'kept'],
    ['hostname', 'web', 'no effect'],
    ['image', 'nginx:1.27', 'kept'],
    ['init', 'true', 'kept'],
    ['ipc', 'host', 'refused'],
    ['isolation', 'hyperv', 'refused'],
    ['label_file', 'a.labels', 'refused'],
    ['labels', '{a: b}', 'no effect'],
    ['links', '[other]', 'refused'],
    ['logging', '{driver: syslog}', 'refused'],
    ['mac_address', '02:42:ac:11:65:43', 'refused'],
    ['mem_limit', '64m', 'kept'],
    ['mem_reservation', '32m', 'no effect'],
    ['mem_swappiness', '10', 'refused'],
    ['memswap_limit', '128m', 'refused'],
    ['models', '[llm]', 'refused'],
    ['network_mode', 'host', 'refused'],
    ['networks', '[back]', 'kept'],
    ['oom_kill_disable', 'true', 'refused'],
    ['oom_score_adj', '-500', 'refused'],
    ['pid', 'host', 'refused'],
    ['pids_limit', '10', 'kept'],
    ['platform', 'linux/amd64', 'refused'],
    ['ports', "['8080:80']", 'kept'],
    ['post_start', '[{command: a}]', 'refused'],
    ['pre_stop', '[{command: a}]', 'refused'],
    ['privileged', 'true', 'refused'],
    ['profiles', '[on]', 'holds anyway'],
    ['provider', '{type: a}', 'refused'],
    ['pull_policy', 'always', 'no effect'],
    ['read_only', 'true', 'kept'],
    ['restart', 'on-failure', 'kept'],
    ['runtime', 'runsc', 'refused'],
    ['scale', '2', 'refused'],
    ['secrets', '[key]', 'kept'],
    ['security_opt', '[no-new-privileges:true]', 'holds anyway'],
    ['shm_size', '128m', 'kept'],
    ['stdin_open', 'true', 'no effect'],
    ['stop_grace_period', '30s', 'kept'],
    ['stop_signal', 'SIGINT', 'kept'],
    ['storage_opt', '{size: 1G}', 'refused'],
    ['sysctls', '{net.core.somaxconn: 1024}', 'refused'],
    ['tmpfs', '/run', 'kept'],
    ['tty', 'true', 'no effect'],
    ['ulimits', '{nofile: 20000}', 'kept'],
    ['use_api_socket', 'true', 'refused'],
    ['user', "'1000'", 'kept'],
    ['userns_mode', 'host', 'refused'],
    ['uts', 'host', 'refused'],
    ['volumes', "['data:/data']", 'kept'],
    ['volumes_from', '[other]', 'refused'],
    ['working_dir', '/app', 'kept'],
  ],
  build: [
    ['additional_contexts', '{a: ./a}', 'refused'],
    ['args', '{A: b}', 'kept'],
    ['cache_from', '[a]', 'refused'],
    ['cache_to', '[a]', 'refused'],
    ['context', './other', 'kept'],
    ['dockerfile', 'Other.Dockerfile', 'kept'],
    ['dockerfile_inline', 'FROM scratch', 'kept'],
    ['entitlements', '[network.host]', 'refused'],
    ['extra_hosts', "['a:127.0.0.1']", 'refused'],
    ['isolation', 'hyperv', 'refused'],
    ['labels', '{a: b}', 'no effect'],
    ['network', 'host', 'refused'],
    ['no_cache', 'true', 'no effect'],
    ['platforms', '[linux/arm64]', 'refused'],
    ['privileged', 'true', 'refused'],
    ['provenance', 'true', 'no effect'],
    ['pull', 'true', 'no effect'],
    ['sbom', 'true', 'no effect'],
    ['secrets', '[key]', 'refused'],
    ['shm_size', '128m', 'refused'],
    ['ssh', '[default]', 'refused'],
    ['tags', "['a:1']", 'refused'],
    ['target', 'release', 'kept'],
    ['ulimits', '{nofile: 20000}', 'refused'],
  ],
  deploy: [
    ['endpoint_mode', 'vip', 'refused'],
    ['labels', '{a: b}', 'no effect'],
    ['mode', 'global', 'refused'],
    ['placement', '{constraints: []}', 'refused'],
    ['replicas', '3', 'kept'],
    ['resources', '{limits: {cpus: "0.5", memory: 64m, pids: 10}}', 'kept'],
    ['restart_policy', '{condition: on-failure}', 'kept'],
    ['rollback_config', '{parallelism: 2}', 'no effect'],
    ['update_config', '{parallelism: 2}', 'no effect'],
  ],
  healthcheck: [
    ['disable', 'false', 'holds anyway'],
    ['disable', 'true', 'kept'],
    ['interval', '10s', 'kept'],
    ['retries', '5', 'kept'],
    ['start_interval', '1s', 'no effect'],
    ['start_period', '20s', 'kept'],
    ['test', '[CMD, other]', 'kept'],
    ['timeout', '5s', 'kept'],
  ],
  network: [
    ['attachable', 'true', 'no effect'],
    ['driver', 'overlay', 'refused'],
    ['driver_opts', '{a: b}', 'refused'],
    ['enable_ipv4', 'true', 'refused'],
    ['enable_ipv6', 'true', 'refused'],
    ['external', 'true', 'refused'],
    ['internal', 'true', 'refused'],
    ['ipam', '{driver: default}', 'refused'],
    ['labels', '{a: b}', 'no effect'],
    ['name', 'other', 'no effect'],
  ],
  volume: [
    ['driver', 'nfs', 'refused'],
    ['driver_opts', '{type: nfs}', 'refused'],
    ['external', 'true', 'refused'],
    ['labels', '{a: b}', 'no effect'],
    ['name', 'other', 'no effect'],
  ],
  config: [
    ['content', 'other', 'kept'],
    ['driver', 'a', 'refused'],
    ['environment', 'A', 'refused'],
    ['external', 'true', 'refused'],
    ['file', './settings.ini', 'kept'],
    ['labels', '{a: b}', 'no effect'],
    ['name', 'other', 'no effect'],
    ['template_driver', 'golang', 'refused'],
  ],
  file: [
    ['configs', '{more: {content: x}}', 'holds anyway'],
    ['include', '[other.yaml]', 'refused'],
    ['models', '{llm: {model: a}}', 'refused'],
    ['name', 'shop', 'no effect'],
    ['networks', '{more: {}}', 'kept'],
    ['secrets', '{more: {content: x}}', 'holds anyway'],
    ['services', '{more: {image: a, restart: always}}', 'kept'],
    ['version', "'3.8'", 'holds anyway'],
    ['volumes', '{more: {}}', 'kept'],
  ],
};

/** The settings of each place without the key that is tried. */
const base = {
  service: { restart: 'always' },
  build: { context: './web' },
  deploy: {},
  healthcheck: { test: '[CMD, check]' },
  network: {},
  volume: {},
  config: { content: 'text' },
  file: {},
};
type PlaceName = keyof typeof base;

const map = (fields: Readonly<Record<string, string>>): string =>
  `{${Object.entries(fields)
    .map(([key, value]) => `${key}: ${value}`)
    .join(', ')}}`;

/** A whole file in which the place has that key. */
function fileWith(place: PlaceName | undefined, key = '', value = ''): string {
  const at = (name: PlaceName, more: Readonly<Record<string, string>> = {}): string => {
    const own = { ...base[name], ...more };
    // the one takes the place of the other
    if (name === place && key === 'file') return map({ file: value });
    return map(name === place ? { ...own, [key]: value } : own);
  };
  const web: Record<string, string> = {
    image: 'nginx:1.27',
    ...base.service,
    ...(place === 'healthcheck' && { healthcheck: at('healthcheck') }),
    ...(place === 'deploy' && { deploy: at('deploy') }),
    ...(place === 'config' && { configs: '[settings]' }),
  };
  const built: Record<string, string> = { build: at('build'), ...base.service };
  const tried: Record<string, string> = place === 'service' ? { ...web, [key]: value } : web;
  if (place === 'service' && key === 'build') delete tried['image'];
  if (place === 'deploy' && key === 'restart_policy') delete tried['restart'];
  if (place === 'service' && key === 'image') tried['image'] = 'nginx:1.28';
  const top: Record<string, string> = {
    services: map({ web: map(tried), other: map(web), built: map(built) }),
    networks: map({ back: at('network') }),
    volumes: map({ data: at('volume') }),
    configs: map({ settings: at('config') }),
    secrets: map({ key: map({ content: 'text' }) }),
  };
  if (place !== 'file') return map(top);
  return map({ ...top, [key]: top[key] === undefined ? value : `${top[key].slice(0, -1)}, ${value.slice(1)}` });
}

const variables = { COMPOSE_PROFILES: 'on' };
const rows = Object.entries(specification).flatMap(([place, keys]) =>
  keys.map(([key, value, fate]) => [place as PlaceName, key, value, fate] as const),
);

test.each(rows)('%s.%s: %s is %s', (place, key, value, fate) => {
  const plain = compose(fileWith(place));
  const { errors, warnings, ...read } = compose(fileWith(place, key, value), variables);
  const isOfKey = ({ path }: { path: string }): boolean => path.split(/[.[\]]+/).includes(key);
  const told = (all: typeof errors) => all.filter(isOfKey).map(({ message }) => message);
  expect(errors.filter((one) => !isOfKey(one))).toEqual([]);
  expect(told(errors).length > 0, errors.map(({ message }) => message).join()).toBe(fate === 'refused');
  if (fate === 'refused') expect(told(errors).join()).not.toContain('does not know');
  if (fate === 'no effect') expect(told(warnings).join()).toContain('has no effect');
  const before = JSON.stringify([plain.services, plain.volumes, plain.networks]);
  const after = JSON.stringify([read.services, read.volumes, read.networks]);
  if (fate !== 'refused') expect(after !== before).toBe(fate === 'kept');
});
