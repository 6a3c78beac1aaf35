import { expect, test } from 'vitest';
import { refusedOfBuild, refusedOfFile, refusedOfService } from '../../compose/refused.ts';
import { compose, service } from './compose-text.ts';

const top = (...lines: string[]): string => `${service()}${lines.join('\n')}\n`;
const build = (...lines: string[]): string =>
  ['services:', '  web:', '    build:', '      context: .', ...lines.map((line) => `      ${line}`), ''].join('\n');
const bomb = [
  'x-a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]',
  ...['b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'].map((name, index) => {
    const before = 'abcdefghi'.charAt(index);
    return `x-${name}: &${name} [${Array.from({ length: 9 }, () => `*${before}`).join(', ')}]`;
  }),
].join('\n');

/** What somebody might send to get at the server, and the key that must be named. */
const hostile: readonly [what: string, text: string, path: string][] = [
  ['privileged', service('privileged: true'), 'services.web.privileged'],
  ['privileged in quotes', service('"privileged": "true"'), 'services.web.privileged'],
  ['privileged by a variable', service('privileged: ${P:-true}'), 'services.web.privileged'],
  ['privileged by a merge', `x-a: &a\n  privileged: true\n${service('<<: *a')}`, 'services.web.privileged'],
  [
    'privileged by merges of merges',
    `x-a: &a {privileged: true}\nx-b: &b {<<: *a}\n${service('<<: [*b]')}`,
    'services.web.privileged',
  ],
  [
    'a service that is an alias',
    `x-a: &a {image: a, privileged: true}\nservices:\n  web: *a\n`,
    'services.web.privileged',
  ],
  ['SYS_ADMIN', service('cap_add: [SYS_ADMIN]'), 'services.web.cap_add.0'],
  ['all capabilities', service('cap_add:', '  - ALL'), 'services.web.cap_add.0'],
  ['a capability in its long form', service('cap_add: [CAP_NET_ADMIN]'), 'services.web.cap_add.0'],
  ['a capability in lower case', service('cap_add: [sys_ptrace]'), 'services.web.cap_add.0'],
  ['raw sockets', service('cap_add: [CHOWN, NET_RAW]'), 'services.web.cap_add.1'],
  ['a disk', service('devices: ["/dev/sda:/dev/sda"]'), 'services.web.devices'],
  ['processes of the server', service('pid: host'), 'services.web.pid'],
  ['processes of another service', service('pid: "service:db"'), 'services.web.pid'],
  ['memory of the server', service('ipc: host'), 'services.web.ipc'],
  ['the name of the server', service('uts: host'), 'services.web.uts'],
  ['no user namespace', service('userns_mode: "host"'), 'services.web.userns_mode'],
  ['a cgroup', service('cgroup_parent: /'), 'services.web.cgroup_parent'],
  ['the network of the server', service('network_mode: host'), 'services.web.network_mode'],
  ['the network of a container', service('network_mode: "container:setpoint"'), 'services.web.network_mode'],
  ['the network of a service', service('network_mode: "service:db"'), 'services.web.network_mode'],
  ['no network', service('network_mode: none'), 'services.web.network_mode'],
  ['the default bridge', service('network_mode: bridge'), 'services.web.network_mode'],
  ['no seccomp', service('security_opt: ["seccomp:unconfined"]'), 'services.web.security_opt.0'],
  [
    'no apparmor, after what is allowed',
    service('security_opt: ["no-new-privileges:true", "apparmor=unconfined"]'),
    'services.web.security_opt.1',
  ],
  ['new privileges', service('security_opt: ["no-new-privileges:false"]'), 'services.web.security_opt.0'],
  ['settings of the kernel', service('sysctls: {net.ipv4.ip_forward: 1}'), 'services.web.sysctls'],
  ['another runtime', service('runtime: runc'), 'services.web.runtime'],
  ['volumes of others', service('volumes_from: ["container:setpoint"]'), 'services.web.volumes_from'],
  ['the whole disk', service('volumes: ["/:/host"]'), 'services.web.volumes.0'],
  ['the whole disk read-only', service('volumes: ["/:/host:ro"]'), 'services.web.volumes.0'],
  ['the whole disk by a variable', service('volumes: ["${ROOT:-/}:/host"]'), 'services.web.volumes.0'],
  ['the whole disk by an empty variable', service('volumes: ["$NONE/etc:/host"]'), 'services.web.volumes.0'],
  ['a folder above', service('volumes: ["../..:/host:ro"]'), 'services.web.volumes.0'],
  ['a folder above by a way through', service('volumes: ["./a/../../b:/host:ro"]'), 'services.web.volumes.0'],
  ['the home folder', service('volumes: ["~/.ssh:/keys:ro"]'), 'services.web.volumes.0'],
  ['a folder of Windows', service('volumes: ["C:\\\\Users:/host"]'), 'services.web.volumes.0'],
  ['the engine', service('volumes: ["/var/run/docker.sock:/var/run/docker.sock"]'), 'services.web.volumes.0'],
  ['the engine by another path', service('volumes: ["/run//docker.sock:/s:ro"]'), 'services.web.volumes.0'],
  [
    'the engine in the long form',
    service('volumes:', '  - {type: bind, source: /var/run/docker.sock, target: /s}'),
    'services.web.volumes.0',
  ],
  [
    'a bind in the long form',
    service('volumes:', '  - type: bind', '    source: /etc', '    target: /host'),
    'services.web.volumes.0',
  ],
  [
    'a bind that says that it is a volume',
    service('volumes:', '  - {type: volume, source: /etc, target: /host}'),
    'services.web.volumes.0',
  ],
  [
    'a bind with propagation',
    service('volumes:', '  - {type: bind, source: ./a, target: /a, read_only: true, bind: {propagation: shared}}'),
    'services.web.volumes.0.bind.propagation',
  ],
  ['a pipe', service('volumes:', '  - {type: npipe, source: a, target: /a}'), 'services.web.volumes.0'],
  [
    'a volume that is an image',
    service('volumes:', '  - {type: image, source: a, target: /a}'),
    'services.web.volumes.0',
  ],
  [
    'a folder of a volume',
    `${service('volumes:', '  - {type: volume, source: a, target: /a, volume: {subpath: ../b}}')}volumes: {a: }\n`,
    'services.web.volumes.0.volume.subpath',
  ],
  [
    'a propagation in the short form',
    `${service('volumes: ["a:/a:rshared"]')}volumes: {a: }\n`,
    'services.web.volumes.0',
  ],
  ['a writable file of the repository', service('volumes: ["./a:/a"]'), 'services.web.volumes.0'],
  ['the repository itself', service('volumes: [".:/a:ro"]'), 'services.web.volumes.0'],
  ['a mount over the processes', `${service('volumes: ["a:/proc/1"]')}volumes: {a: }\n`, 'services.web.volumes.0'],
  ['a mount over a device', service('tmpfs: /dev/shm'), 'services.web.tmpfs'],
  ['a mount over everything', `${service('volumes: ["a:/"]')}volumes: {a: }\n`, 'services.web.volumes.0'],
  ['memory without end', service('tmpfs: ["/run:size=100g"]'), 'services.web.tmpfs.0'],
  ['programs in memory', service('tmpfs: ["/run:size=1m,exec,suid"]'), 'services.web.tmpfs.0'],
  ['a volume nobody declared', service('volumes: ["other:/a"]'), 'services.web.volumes.0'],
  [
    'a volume that is a bind',
    top('volumes:', '  a:', '    driver_opts: {type: none, o: bind, device: /}'),
    'volumes.a.driver_opts',
  ],
  [
    'a volume that is a bind, by merge',
    `x-a: &a {driver_opts: {device: /}}\n${top('volumes:', '  a: {<<: *a}')}`,
    'volumes.a.driver_opts',
  ],
  ['a driver of volumes', top('volumes:', '  a: {driver: nfs}'), 'volumes.a.driver'],
  ['a volume of others', top('volumes:', '  a: {external: true}'), 'volumes.a.external'],
  [
    'a volume of others by its name',
    top('volumes:', '  a:', '    external:', '      name: other'),
    'volumes.a.external',
  ],
  ['a network of others', top('networks:', '  a: {external: true, name: host}'), 'networks.a.external'],
  ['the network of the server as a driver', top('networks:', '  a: {driver: host}'), 'networks.a.driver'],
  [
    'a network of the machine',
    top('networks:', '  a: {driver: macvlan, driver_opts: {parent: eth0}}'),
    'networks.a.driver_opts',
  ],
  ['addresses', top('networks:', '  a: {ipam: {config: [{subnet: 169.254.0.0/16}]}}'), 'networks.a.ipam'],
  [
    'an address',
    `${service('networks: {a: {ipv4_address: 10.0.0.1}}')}networks: {a: }\n`,
    'services.web.networks.a.ipv4_address',
  ],
  ['a secret of the server', top('secrets:', '  a: {file: /etc/shadow}'), 'secrets.a.file'],
  ['a secret above the repository', top('secrets:', '  a: {file: ../../key}'), 'secrets.a.file'],
  ['a secret of the process', top('secrets:', '  a: {environment: SETPOINT_KEY}'), 'secrets.a.environment'],
  ['a secret of others', top('secrets:', '  a: {external: true}'), 'secrets.a.external'],
  ['a config of the server', top('configs:', '  a: {file: /etc/passwd}'), 'configs.a.file'],
  ['a config of others', top('configs:', '  a: {external: true}'), 'configs.a.external'],
  [
    'a config over the devices',
    `${service('configs: [{source: a, target: /dev/x}]')}configs: {a: {content: x}}\n`,
    'services.web.configs.0',
  ],
  ['variables of the server', service('env_file: /proc/self/environ'), 'services.web.env_file'],
  ['variables above the repository', service('env_file: [{path: ../.env}]'), 'services.web.env_file.0'],
  ['another file', service('extends: {file: /etc/x.yaml, service: a}'), 'services.web.extends'],
  ['another service', service('extends: base'), 'services.web.extends'],
  ['included files', top('include: [/etc/compose.yaml]'), 'include'],
  ['an included repository', top('include:', '  - path: git@example.org:a.git'), 'include'],
  ['a build in the network of the server', build('network: host'), 'services.web.build.network'],
  ['a build with keys', build('ssh: [default]'), 'services.web.build.ssh'],
  ['a build with secrets', build('secrets: [a]'), 'services.web.build.secrets'],
  ['a build of other folders', build('additional_contexts: {a: /}'), 'services.web.build.additional_contexts'],
  ['a privileged build', build('privileged: true'), 'services.web.build.privileged'],
  ['a build with entitlements', build('entitlements: [security.insecure]'), 'services.web.build.entitlements'],
  ['a cache of others', build('cache_from: ["type=registry,ref=evil.example/a"]'), 'services.web.build.cache_from'],
  ['a cache for others', build('cache_to: ["type=local,dest=/"]'), 'services.web.build.cache_to'],
  ['a Dockerfile above the context', build('dockerfile: ../../Dockerfile'), 'services.web.build.dockerfile'],
  ['a Dockerfile of the server', build('dockerfile: /etc/Dockerfile'), 'services.web.build.dockerfile'],
  [
    'a Dockerfile without end',
    build(`dockerfile_inline: "${'#'.repeat(64 * 1024)}#"`),
    'services.web.build.dockerfile_inline',
  ],
  ['a context of the server', service('build: /'), 'services.web.build'],
  ['a context above', service('build: {context: ../..}'), 'services.web.build.context'],
  ['a context of elsewhere', service('build: https://example.org/a.git'), 'services.web.build'],
  ['a context of elsewhere by ssh', service('build: {context: "git@example.org:a.git"}'), 'services.web.build.context'],
  ['an argument that is no name', build('args: {"A B": x}'), 'services.web.build.args["A B"]'],
  [
    'GPUs by reservation',
    service('deploy: {resources: {reservations: {devices: [{capabilities: [gpu]}]}}}'),
    'services.web.deploy.resources.reservations.devices',
  ],
  [
    'another machine',
    service('deploy: {placement: {constraints: [node.role == manager]}}'),
    'services.web.deploy.placement',
  ],
  ['an instance on every machine', service('deploy: {mode: global}'), 'services.web.deploy.mode'],
  ['instances without end', service('deploy: {replicas: 1000000}'), 'services.web.deploy.replicas'],
  ['shared memory without end', service('shm_size: 64g'), 'services.web.shm_size'],
  [
    'the gateway of the server',
    service('extra_hosts: ["host.docker.internal:host-gateway"]'),
    'services.web.extra_hosts',
  ],
  ['the name of another container', service('container_name: setpoint-agent'), 'services.web.container_name'],
  ['labels of Setpoint', service('labels: {setpoint.assignment: x}'), 'services.web.labels'],
  ['labels of Setpoint in a list', service('labels: ["io.setpoint.agent=x"]'), 'services.web.labels'],
  ['an image by its id', 'services: {web: {image: "sha256:0123456789abcdef"}}', 'services.web.image'],
  ['an image that was built for others', 'services: {web: {image: "setpoint/other:1"}}', 'services.web.image'],
  ['an image that is an option', 'services: {web: {image: "--privileged"}}', 'services.web.image'],
  ['a user that is more than a user', service('user: "0:0:x"'), 'services.web.user'],
  ['a name that is a path', 'services: {../web: {image: a}}', 'services["../web"]'],
  ['a name of the language', 'services: {web: {image: a}, __proto__: {privileged: true}}', 'services.__proto__'],
  [
    'a name of the language as a variable',
    service('environment: {__proto__: x}'),
    'services.web.environment.__proto__',
  ],
  ['a key that nobody knows', service('priviledged: true'), 'services.web.priviledged'],
  ['a key of the language', service('constructor: x'), 'services.web.constructor'],
  ['a key that is there twice', service('user: a', 'user: root'), 'services.web.user'],
  ['a service that is there twice', 'services: {web: {image: a}, web: {image: b}}', 'services.web'],
  ['a tag', service('user: !!js/function "x"'), 'services.web.user'],
  ['a binary', service('user: !!binary cm9vdA=='), 'services.web.user'],
  ['a reset', service('ports: !reset []'), 'services.web.ports'],
  ['a tag on a key', service('!x user: a'), 'services.web.user'],
  [
    'an alias to itself',
    'services: &a\n  web: *a\n',
    'services.web.web.web.web.web.web.web.web.web.web.web.web.web.web.web.web',
  ],
  ['a merge with itself', 'services:\n  web: &a\n    image: a\n    <<: *a\n', 'services.web'],
  ['an anchor that is not there', service('user: *a'), 'services.web.user'],
  ['many aliases', `x-a: &a 1\nx-b: [${Array.from({ length: 101 }, () => '*a').join(', ')}]\n${service()}`, 'x-b.100'],
  ['an alias bomb', `${bomb}\n${service()}`, 'x-d.0.0'],
  ['a bomb of few aliases', `x-a: &a [${'1,'.repeat(300)}]\nx-b: [${'*a,'.repeat(50)}]\n${service()}`, ''],
  ['a folder of Windows with slashes', service('volumes: ["C:/Users:/host"]'), 'services.web.volumes.0'],
  ['a file that is too deep', `x-a: ${'['.repeat(40)}${']'.repeat(40)}\n${service()}`, ''],
  ['a file that is much too deep', `x-a: ${'['.repeat(200_000)}`, ''],
  ['lists without end', '- '.repeat(200_000), ''],
  ['keys without end', `x-a: ${'? '.repeat(200_000)}`, ''],
  ['a file that is too long', `${service()}#${'x'.repeat(256 * 1024)}`, ''],
  ['a file with too many values', `x-a: [${'1,'.repeat(10_001)}]\n${service()}`, ''],
  ['a NUL', `${service()}\0`, ''],
  ['a control character', service('user: "a\u001b[2J"'), ''],
  ['a NUL that is written as one', service('command: ["a\\0b"]'), 'services.web.command'],
  ['half a character', service('user: "\ud800"'), ''],
  ['tabs as indentation', 'services:\n\tweb:\n\t\timage: a\n', ''],
  ['two documents', `${service()}---\n${service('privileged: true')}`, ''],
  ['no YAML', 'services: {web: {image: a', ''],
  ['a text', 'services', ''],
  ['nothing', '', ''],
  ['a list', '- services', ''],
  ['services as a list', 'services: [web]', 'services'],
  ['a service that is nothing', 'services: {web: }', 'services.web'],
  ['a service without an image', 'services: {web: {user: a}}', 'services.web'],
  ['an unknown key at the top', top('privileged: true'), 'privileged'],
  ['a variable that does not end', service('user: ${A'), 'services.web.user'],
  ['a command that does not end', service("command: 'sh -c \"'"), 'services.web.command'],
  ['variables without end', service(`user: "${'${A:-'.repeat(2000)}${'}'.repeat(2000)}"`), 'services.web.user'],
  ['a variable that grows', `x-a: ["${'$A'.repeat(3000)}"]\n${service()}`, 'x-a.0'],
  ['ports by UDP', service('ports: ["53:53/udp"]'), 'services.web.ports.0'],
  ['all ports', service('ports: ["1-65535:1-65535"]'), 'services.web.ports.0'],
  ['a port that is none', service('ports: ["0:80"]'), 'services.web.ports.0'],
  ['one port twice', `${service('ports: ["80:80"]')}  other: {image: a, ports: ["80:81"]}\n`, 'services.other.ports'],
  [
    'two that write to one volume',
    `${service('volumes: ["a:/a"]')}  other: {image: a, volumes: ["a:/b"]}\nvolumes: {a: }\n`,
    'services.other.volumes',
  ],
  [
    'several that write to one volume',
    `${service('volumes: ["a:/a"]', 'deploy: {replicas: 2}')}volumes: {a: }\n`,
    'services.web.volumes',
  ],
  ['two things at one path', `${service('volumes: ["a:/a", "b:/a/"]')}volumes: {a: , b: }\n`, 'services.web'],
  ['a circle of services', 'services: {a: {image: a, depends_on: [b]}, b: {image: b, depends_on: [a]}}', 'services'],
  ['a service that waits for itself', service('depends_on: [web]'), 'services'],
  ['a service that waits for none', service('depends_on: [db]'), 'services.web.depends_on.0'],
  [
    'a wait for the end of what never ends',
    'services: {a: {image: a, depends_on: {b: {condition: service_completed_successfully}}}, b: {image: b, restart: always}}',
    'services.b.restart',
  ],
  ['a health check that is no program', service('healthcheck: {test: [CMD]}'), 'services.web.healthcheck.test'],
];

test.each(hostile)('%s is refused', (_what, text, path) => {
  const { errors } = compose(text, { A: 'x'.repeat(100) });
  const found = errors.map((it) => it.path);
  // what is refused for an alias to itself depends on the depth that it reached
  expect(path.startsWith('services.web.web') ? found.map((it) => it.slice(0, path.length)) : found).toContain(path);
  for (const { key, message, line, column } of errors) {
    expect(path === '' || message.includes(key)).toBe(true);
    expect(line).toBeGreaterThan(0);
    expect(column).toBeGreaterThan(0);
  }
});

test.each([
  ...Object.keys(refusedOfService).map((key) => [`services.web.${key}`, service(`${key}: x`)]),
  ...Object.keys(refusedOfFile).map((key) => [key, top(`${key}: x`)]),
  ...Object.keys(refusedOfBuild).map((key) => [`services.web.build.${key}`, build(`${key}: x`)]),
])('%s is refused with its reason', (path, text) => {
  const [error, ...more] = compose(text).errors;
  expect(more).toEqual([]);
  expect(error).toMatchObject({ path, key: path.split('.').at(-1) });
  expect(error?.message).toMatch(new RegExp(`^${path.replaceAll('.', '\\.')} is refused: [a-zA-Z].{10,}`));
});

/** The list of the security rules, without what has a test of its own above. */
test('the table has every key that must be refused', () => {
  const all =
    'devices device_cgroup_rules gpus pid ipc uts userns_mode cgroup cgroup_parent network_mode sysctls runtime isolation volumes_from extends container_name links external_links extra_hosts dns dns_search dns_opt mac_address credential_spec oom_kill_disable oom_score_adj storage_opt logging scale use_api_socket provider models post_start pre_stop develop blkio_config group_add privileged';
  expect(all.split(' ').filter((key) => !Object.hasOwn(refusedOfService, key))).toEqual([]);
});

test('there are at least sixty hostile files', () => {
  expect(new Set(hostile.map(([, text]) => text)).size).toBeGreaterThanOrEqual(60);
});

test('a file that was sent has no repository to take files from', () => {
  const sent = (text: string) => compose(text, {}, false).errors.map(({ path }) => path);
  expect(sent(service('volumes: ["./a:/a:ro"]'))).toEqual(['services.web.volumes.0']);
  expect(sent(service('env_file: .env'))).toEqual(['services.web.env_file']);
  expect(sent('services: {web: {build: .}}')).toEqual(['services.web.build']);
  expect(sent(`${service()}configs: {a: {file: ./a}}\n`)).toEqual(['configs.a.file']);
});
