import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { PlainComposedService } from '../../store/kinds/composed-service.ts';
import { compose, service } from './compose-text.ts';

const web = (...lines: string[]): PlainComposedService | undefined => {
  const { services, errors } = compose(`${service('restart: always', ...lines)}volumes: {data: }\n`);
  expect(errors).toEqual([]);
  return services.find(({ name }) => name === 'web');
};
const warned = (text: string, env: Record<string, string> = {}): string[] =>
  compose(text, env).warnings.map(({ message }) => message);

test('a service is read as a whole', () => {
  const text = readFileSync(join(import.meta.dirname, 'ordinary/django.yaml'), 'utf8');
  const { services, volumes } = compose(text, { DB_PASSWORD: 'p' });
  expect(volumes).toEqual(['data']);
  for (const it of services) expect(PlainComposedService.parse(it)).toEqual(it);
  expect(services[0]).toEqual({
    name: 'web',
    build: {
      context: 'backend',
      dockerfile_path: 'docker/Dockerfile',
      target: 'production',
      args: { PYTHON_VERSION: '3.13' },
    },
    command: ['gunicorn', 'app.wsgi:application', '--bind', '0.0.0.0:8000', '--workers', '4'],
    env_files: [{ path: '.env.production', required: true }],
    env: {
      DATABASE_URL: 'postgres://app:p@db:5432/app',
      REDIS_URL: 'redis://cache:6379/0',
      ALLOWED_HOSTS: 'localhost,127.0.0.1',
      DEBUG: 'false',
      WORKERS: '4',
    },
    ports: [{ port: 8000, publish: 80 }],
    mounts: [],
    files: [],
    depends_on: [{ service: 'migrate', condition: 'service_completed_successfully' }],
    healthcheck: {
      command: ['curl', '-f', 'http://localhost:8000/healthz'],
      interval_seconds: 30,
      timeout_seconds: 10,
      failures: 3,
      start_seconds: 40,
    },
    restart_policy: 'always',
    replicas: 2,
    limits: { nano_cpus: 5e8, memory_bytes: 512 * 1024 ** 2 },
    networks: [{ name: 'default', aliases: ['web'] }],
    grace_seconds: 10,
    read_only_root: false,
    init: false,
    capabilities: { drop: [], add: [] },
  });
  expect(services.find(({ name }) => name === 'worker')).toMatchObject({
    command: ['celery', '-A', 'app', 'worker'],
    ports: [],
    env: { WORKERS: '8', DEBUG: 'false' },
  });
  expect(services.find(({ name }) => name === 'worker')).toMatchObject({ healthcheck: { none: true } });
  expect(services.find(({ name }) => name === 'migrate')?.restart_policy).toBe('no');
  expect(services.find(({ name }) => name === 'db')).toMatchObject({
    user: 'postgres',
    grace_seconds: 60,
    stop_signal: 'SIGINT',
    mounts: [
      { type: 'volume', volume: 'data', path: '/var/lib/postgresql/data', read_only: false, copy: true },
      { type: 'tmpfs', path: '/tmp', size_bytes: 64 * 1024 ** 2, mode: 0o1777 },
    ],
    files: [{ path: '/docker-entrypoint-initdb.d/init.sql', repository_path: 'db/init.sql', mode: 0o444 }],
    healthcheck: { command: ['/bin/sh', '-c', 'pg_isready'] },
  });
});

test.each([
  ['"8080:80"', [{ port: 80, publish: 8080 }]],
  ['8080:80', [{ port: 80, publish: 8080 }]],
  ['"0.0.0.0:8080:80/tcp"', [{ port: 80, publish: 8080 }]],
  ['"[::]:8080:80"', [{ port: 80, publish: 8080 }]],
  ['"127.0.0.1:8080:80"', [{ port: 80 }]],
  ['"80"', [{ port: 80 }]],
  ['80', [{ port: 80 }]],
  ['"8000-8002:80-82"', [0, 1, 2].map((n) => ({ port: 80 + n, publish: 8000 + n }))],
  ['"8000-8002:80"', [{ port: 80, publish: 8000 }]],
  ['{target: 80, published: "8000-8002"}', [{ port: 80, publish: 8000 }]],
  ['{target: 80, published: "8080", host_ip: 127.0.0.1}', [{ port: 80 }]],
  ['{target: 80, published: 8080}', [{ port: 80, publish: 8080 }]],
])('the port %s is read', (written, ports) => {
  expect(web(`ports: [${written}]`)?.ports).toEqual(ports);
});

test('variables and arguments have any name and lines that programs need', () => {
  const read = web(
    'environment: {discovery.type: single-node, MY-KEY: x, PEM: "a\\nb"}',
    'build: {context: ., args: ["my.arg=1", "KEY=a\\nb"]}',
  );
  expect(read?.env).toEqual({ 'discovery.type': 'single-node', 'MY-KEY': 'x', PEM: 'a\nb' });
  expect(read?.build?.args).toMatchObject({ 'my.arg': '1' });
});

test('what is published is not repeated by expose', () => {
  expect(web('expose: [80, 81]', 'ports: ["8080:80", "8080:80"]')?.ports).toEqual([
    { port: 81 },
    { port: 80, publish: 8080 },
  ]);
});

test.each([
  ['mem_limit: 512m', { memory_bytes: 512 * 1024 ** 2 }],
  ['mem_limit: 1.5gb', { memory_bytes: 1.5 * 1024 ** 3 }],
  ['mem_limit: 64MiB', { memory_bytes: 64 * 1024 ** 2 }],
  ['mem_limit: 67108864', { memory_bytes: 64 * 1024 ** 2 }],
  [
    'deploy: {resources: {limits: {cpus: 1.5, memory: 1g, pids: 10}}}',
    { nano_cpus: 1.5e9, memory_bytes: 1024 ** 3, processes: 10 },
  ],
  ['shm_size: 64kb', { shm_bytes: 65_536 }],
])('the limit %s is read', (line, limits) => {
  expect(web(line)?.limits).toEqual(limits);
});

test.each([
  ['test: curl localhost', { command: ['/bin/sh', '-c', 'curl localhost'] }],
  ['test: [CMD-SHELL, "a || b"]', { command: ['/bin/sh', '-c', 'a || b'] }],
  ['test: [CMD, a, "b c"]', { command: ['a', 'b c'] }],
  ['interval: 1m30s', { interval_seconds: 90 }],
])('the health check %s is read', (line, check) => {
  const read = web(`healthcheck: {${line}}`)?.healthcheck;
  expect(read).toMatchObject(check);
  expect(read !== undefined && 'command' in read).toBe('command' in check);
});

test.each(['test: [NONE]', 'disable: true', 'disable: "true"'])('the health check %s is none', (line) => {
  const it = web(`healthcheck: {${line}}`)?.healthcheck;
  expect(it).toMatchObject({ none: true });
  expect(it).not.toHaveProperty('command');
});

test('times of a health check without a test of its own are not passed over without a word', () => {
  const wordsOf = (check: string) => warned(service('restart: always', `healthcheck: {${check}}`));
  const ofImage = 'has no effect: without a test the check of the image counts, with its own times';
  expect(wordsOf('interval: 5s, retries: 30')).toEqual([
    `services.web.healthcheck.interval ${ofImage}`,
    `services.web.healthcheck.retries ${ofImage}`,
  ]);
  expect(wordsOf('disable: true, timeout: 5s')).toEqual([
    'services.web.healthcheck.timeout has no effect: there is no check',
  ]);
  expect(wordsOf('test: [CMD, check], timeout: 5s')).toEqual([]);
});

const approximated: [what: string, text: string, message: string][] = [
  ['a volume without a name', service('volumes: [/cache]'), 'services.web.volumes.0'],
  ['a port of one address', service('ports: ["127.0.0.1:80:80"]'), 'services.web.ports.0'],
  ['a port without one of the server', service('ports: ["80"]'), 'services.web.ports.0'],
  ['a choice of ports', service('ports: ["8000-8002:80"]'), 'services.web.ports.0 leaves the choice of a port'],
  ['a variable that nobody has', service('user: a$NAME'), 'services.web.user uses NAME'],
  [
    'a variable that is passed on and that nobody has',
    service('environment: [NAME]'),
    'services.web.environment.0 passes NAME on',
  ],
  ['a restart that is not there', service(), 'services.web has no restart'],
  ['attempts', service('restart: on-failure:3'), 'services.web.restart counts no attempts'],
  [
    'part of a second',
    service('healthcheck: {interval: 500ms}'),
    'services.web.healthcheck.interval counts in whole seconds: it is 1s',
  ],
  ['a profile', service('profiles: [debug]'), 'services.web is left out'],
  ['an image of what is built', service('build: .'), 'services.web.image'],
  ['memory without a size', service('tmpfs: /run'), 'services.web.tmpfs has no size'],
  ['a name', `name: shop\n${service()}`, 'name has no effect'],
  ...[
    'hostname: a',
    'labels: {a: b}',
    'tty: true',
    'pull_policy: always',
    'mem_reservation: 1g',
    'deploy: {update_config: {parallelism: 2}}',
  ].map((line): [string, string, string] => [line, service(line), 'has no effect']),
];

test.each(approximated)('%s is approximated in words', (_what, text, message) => {
  expect(compose(text).errors).toEqual([]);
  expect(warned(text)).toContainEqual(expect.stringContaining(message));
});

test('what compose and Setpoint do alike is not warned of', () => {
  const text = service('restart: always', 'user: "${NAME:-a}"', 'environment: [A=b, GIVEN]', 'x-note: [a]');
  expect(warned(text, { GIVEN: 'c' })).toEqual([]);
  expect(compose(text, { GIVEN: 'c' }).services[0]).toMatchObject({ user: 'a', env: { A: 'b', GIVEN: 'c' } });
});

test('numbers of variables stay as they are written', () => {
  const env = 'environment: {A: 1.10, B: 0o17, C: 1e3, D: true, E: null, F: "no", G: 2026-01-01}';
  expect(web(env)?.env).toEqual({ A: '1.10', B: '0o17', C: '1e3', D: 'true', F: 'no', G: '2026-01-01' });
});

test('what a service is merged from yields to its own', () => {
  const text = `x-a: &a {user: a, restart: always, environment: {A: 1}}\nx-b: &b {user: b, init: true}\n${service('<<: [*a, *b]', 'environment: {B: 2}')}`;
  expect(compose(text).services[0]).toMatchObject({ user: 'a', init: true, env: { B: '2' }, restart_policy: 'always' });
});

test('profiles are switched on by a variable', () => {
  const text = service('profiles: [a, b]');
  expect(compose(text).services).toEqual([]);
  expect(compose(text, { COMPOSE_PROFILES: 'x, b' }).services).toHaveLength(1);
  expect(compose(text, { COMPOSE_PROFILES: '*' }).services).toHaveLength(1);
});

test('a service whose end others wait for is not started again', () => {
  const text = 'services: {a: {image: a, depends_on: {b: {condition: service_completed_successfully}}}, b: {image: b}}';
  expect(compose(text).services.map((it) => it.restart_policy)).toEqual(['always', 'no']);
});

test('configs and secrets become files', () => {
  const text = `${service('configs: [a]', 'secrets: [{source: b, target: token, mode: 0400, uid: "1000"}]')}configs: {a: {content: "x=$A"}}\nsecrets: {b: {file: ./b}}\n`;
  expect(compose(text, { A: '1' }).services[0]?.files).toEqual([
    { path: '/a', mode: 0o444, uid: 0, gid: 0, content: 'x=1' },
    { path: '/run/secrets/token', mode: 0o400, uid: 1000, gid: 0, repository_path: 'b' },
  ]);
});

test('errors have the place where they are written', () => {
  const [error] = compose(service('privileged: true')).errors;
  expect(error).toEqual({
    path: 'services.web.privileged',
    key: 'privileged',
    line: 4,
    column: 17,
    message: 'services.web.privileged is refused: a privileged container owns its server',
  });
});

test('a variable that refers to another object stands in environment alone', () => {
  const env = { DB_URL: '${databases.orders.url}', PLAIN: 'x' };
  const read = compose(
    [
      'x-common: &common {DB: "${DB_URL}"}',
      service(
        'restart: always',
        'environment: {<<: *common, A: "${DB_URL:-none}", B: "${DB_URL:+set}", DB_URL: }',
      ).trim(),
    ].join('\n'),
    env,
  );
  expect(read.errors).toEqual([]);
  const url = '${databases.orders.url}';
  expect(read.services[0]?.env).toEqual({ DB: url, A: url, B: 'set', DB_URL: url });
  const errorsOf = (...lines: string[]) =>
    compose(service('restart: always', ...lines), env).errors.map(({ path, message }) => [path, message]);
  const why = 'has the variable DB_URL, which takes something of another object: only environment may have it';
  const refused = (path: string) => [[path, expect.stringContaining(why)]];
  expect(errorsOf('command: [serve, --database, "${DB_URL}"]')).toEqual(refused('services.web.command.2'));
  expect(errorsOf('command: [serve, "${DB_URL:+set}", "$${databases.orders.url}", "${PLAIN}"]')).toEqual([]);
  expect(errorsOf('healthcheck: {test: "check ${DB_URL-}"}')).toEqual(refused('services.web.healthcheck.test'));
  expect(errorsOf('build: {context: ., args: {URL: "${DB_URL}"}}')).toEqual(refused('services.web.build.args.URL'));
  expect(errorsOf('build: {context: ., args: [DB_URL]}')).toEqual(refused('services.web.build.args.0'));
  const file = `${service('restart: always', 'configs: [app]')}configs: {app: {content: "url = \${DB_URL}"}}\n`;
  expect(compose(file, env).errors).toMatchObject([
    { path: 'configs.app.content', message: expect.stringContaining(why) },
  ]);
});
