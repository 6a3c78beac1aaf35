import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { convertCompose } from '../../api/templates/convert-compose.ts';
import { readTemplate } from '../../api/templates/read.ts';

const shop = `
version: "3"
services:
  web:
    image: example/shop:2.1
    ports: ["8080:80", "9000"]
    environment:
      DATABASE_URL: postgres://shop:hunter2hunter2@db:5432/shop
      DB_PASSWORD: hunter2hunter2
      REDIS: cache:6379
      TITLE: \${TITLE:-My shop}
      MAIL: \${MAIL}
      TEXT: costs $$5 and $\${X}
      FROM_OUTSIDE:
    depends_on: {db: {condition: service_healthy}, cache: {condition: service_started}}
    volumes: ["uploads:/srv/uploads"]
    user: "1000"
    restart: unless-stopped
  db:
    image: postgres:17-alpine
    restart: always
    environment:
      POSTGRES_USER: shop
      POSTGRES_PASSWORD: hunter2hunter2
      POSTGRES_DB: shop
    volumes: ["data:/var/lib/postgresql/data"]
  cache:
    image: redis:8
    restart: always
    privileged: true
volumes: {uploads: {}, data: {}}
`;

const outcomes = (keys: readonly { path: string; outcome: string }[]) =>
  Object.fromEntries(keys.map(({ path, outcome }) => [path, outcome]));

describe('a compose file', () => {
  it('becomes a template that is valid, with variables in the place of secrets', () => {
    const { content, report } = convertCompose({ content: shop, name: 'shop', recognise_databases: true });
    expect(report).toMatchObject({ valid: true, errors: [], warnings: [] });
    expect(content).not.toContain('hunter2');
    expect(report.resources).toEqual([
      { kind: 'volume', name: 'uploads', wave: 0 },
      { kind: 'database', name: 'db', wave: 1 },
      { kind: 'database', name: 'cache', wave: 1 },
      { kind: 'application', name: 'web', wave: 2 },
    ]);
    expect(report.variables.map(({ name, generated, required }) => [name, generated, required])).toEqual([
      ['TITLE', false, false],
      ['MAIL', false, true],
      ['FROM_OUTSIDE', false, true],
      ['DB_PASSWORD', true, false],
    ]);
    for (const line of [
      'DATABASE_URL: postgres://shop:${DB_PASSWORD}@${databases.db.host}:5432/shop',
      'REDIS: ${databases.cache.host}:6379',
      'TITLE: ${TITLE}',
      'TEXT: costs $5 and $${X}',
      'password: ${DB_PASSWORD}',
      'exposed_port: 80',
    ])
      expect(content).toContain(line);
  });

  it('has an account of each of its keys', () => {
    const { keys } = convertCompose({ content: shop, recognise_databases: true });
    expect(outcomes(keys)).toMatchObject({
      version: 'kept',
      volumes: 'kept',
      'services.web.image': 'kept',
      'services.web.ports': 'approximated',
      'services.web.environment.DATABASE_URL': 'approximated',
      'services.web.environment.TITLE': 'kept',
      'services.web.depends_on': 'approximated',
      'services.web.user': 'refused',
      'services.db.image': 'approximated',
      'services.cache.privileged': 'refused',
    });
    for (const { message, line, column } of keys) {
      expect(message).not.toBe('');
      expect(line * column).toBeGreaterThan(0);
    }
  });

  it('has applications alone where databases are not asked for', () => {
    const { report } = convertCompose({ content: shop });
    expect(report.errors).toEqual([]);
    expect(report.resources.map(({ kind, name }) => `${kind} ${name}`)).toEqual([
      'volume uploads',
      'volume data',
      'application db',
      'application cache',
      'application web',
    ]);
  });

  it('that is no YAML or no compose file gives an account, and one that is hostile is refused', () => {
    expect(convertCompose({ content: 'services: [' }).keys).toMatchObject([{ outcome: 'refused' }]);
    expect(convertCompose({ content: 'services: {}' }).report.valid).toBe(false);
    expect(() => convertCompose({ content: 'services: {}\nservices: {}' })).toThrow(
      expect.objectContaining({ status: 400 }),
    );
  });
});

describe('a compose file of a stranger', () => {
  const converted = (...lines: string[]) =>
    convertCompose({ content: ['services:', '  web:', '    image: web:1', ...lines].join('\n') });

  it.each([
    ['a variable without an end', `\${${'A'.repeat(120_000)}`],
    ['many of them', '${A'.repeat(40_000)],
    ['many variables', 'x$A'.repeat(40_000)],
    ['many passwords', `://u:${Array.from({ length: 9000 }, (_, index) => `p${index}@://u:`).join('')}`],
  ])('with %s is converted soon', (_, text) => {
    expect(converted('    environment:', `      TEXT: '${text}'`).keys.length).toBeGreaterThan(0);
  });

  it('has names that are no patterns', () => {
    const { keys } = converted(
      '    environment: {TEXT: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa "}',
      '  "(a+)+x(": {image: "b:1"}',
    );
    expect(keys.length).toBeGreaterThan(0);
  });

  it('hides secrets in commands, and says which variables a command loses', () => {
    const { content, keys, report } = converted(
      '    command: serve --key hunter2hunter2 --title ${TITLE}',
      '    environment: {API_KEY: hunter2hunter2}',
      '    ulimits: {nofile: {soft: 1024, hard: 4096}}',
    );
    expect(report.errors).toEqual([]);
    expect(content).not.toContain('hunter2');
    expect(content).toContain('--key ${API_KEY}');
    expect(content).toMatch(/ulimits:\s+nofile:\s+soft: 1024\s+hard: 4096/);
    expect(keys.find(({ path }) => path === 'services.web.command')?.message).toContain('uses TITLE');
  });
});

/** Services of files as people write them, and what becomes of them; after a `|` the volumes of the file. */
const short: readonly (readonly [name: string, services: string, resources: string])[] = [
  ['a port as a number', 'web: {image: "a/web:1", ports: [8080]}', 'application web'],
  ['a port of an address', 'web: {image: "a/web:1", ports: ["127.0.0.1:80:8080/tcp"]}', 'application web'],
  ['a port in the long form', 'web: {image: "a/web:1", ports: [{target: 80, published: "8080"}]}', 'application web'],
  ['ports that are only exposed', 'web: {image: "a/web:1", expose: ["3000"]}', 'application web'],
  ['a service without a port', 'worker: {image: "a/worker:1", restart: always}', 'application worker'],
  ['variables in a list', 'web: {image: "a/web:1", environment: [A=1, B=2, "C="]}', 'application web'],
  ['variables that are numbers', 'web: {image: "a/web:1", environment: {A: 1, B: true, C: 0.5}}', 'application web'],
  [
    'a variable with a fault of its own',
    'web: {image: "a/web:1", environment: {A: "${A:?name it}"}}',
    'application web',
  ],
  ['an image of a variable', 'web: {image: "a/web:${TAG:-1.2}"}', 'application web'],
  ['an image of a registry with a port', 'web: {image: "registry.example.com:5000/a/web:1"}', 'application web'],
  [
    'a volume in the long form',
    'web: {image: "a/web:1", volumes: [{type: volume, source: data, target: /data}]}|data',
    'volume data, application web',
  ],
  [
    'a volume that is only read',
    'web: {image: "a/web:1", volumes: ["data:/data:ro"]}|data',
    'volume data, application web',
  ],
  [
    'a health check of the shell',
    'web: {image: "a/web:1", healthcheck: {test: curl -f http://localhost/, interval: 1m30s, retries: 5}}',
    'application web',
  ],
  ['a health check that is off', 'web: {image: "a/web:1", healthcheck: {disable: true}}', 'application web'],
  [
    'limits and instances',
    'web: {image: "a/web:1", deploy: {replicas: 2, resources: {limits: {cpus: "0.5", memory: 256M}}}}',
    'application web',
  ],
  ['a command in a list', 'web: {image: "a/web:1", command: [serve, --host, 0.0.0.0]}', 'application web'],
  ['labels of a proxy', 'web: {image: "a/web:1", labels: ["traefik.enable=true"]}', 'application web'],
  [
    'a MariaDB',
    'db: {image: "mariadb:11", environment: {MARIADB_DATABASE: a, MARIADB_USER: a, MARIADB_PASSWORD: abcdefgh}}',
    'database db',
  ],
  [
    'a MySQL with a root password alone',
    'db: {image: "mysql:8.4", environment: {MYSQL_ROOT_PASSWORD: abcdefgh}}',
    'database db',
  ],
  [
    'a Redis with a password',
    'cache: {image: "redis:8-alpine", command: redis-server --requirepass abcdefgh}',
    'database cache',
  ],
  ['a database of a file of variables', 'db: {image: "postgres:17", env_file: .env}', 'database db'],
  [
    'an extension that is merged',
    'web: {<<: {restart: always, environment: {A: "1"}}, image: "a/web:1"}',
    'application web',
  ],
  ['names of networks', 'web: {image: "a/web:1", networks: [front, back]}|', 'application web'],
  [
    'one that waits for another',
    'web: {image: "a/web:1", depends_on: [api]}, api: {image: "a/api:1", ports: ["9000"]}',
    'application api, application web',
  ],
];

it.each(short)('%s becomes a template', (_what, file, resources) => {
  const [services = '', volumes = ''] = file.split('|');
  const networks = services.includes('networks') ? 'networks: {front: , back: }\n' : '';
  const named = volumes === '' ? '' : `volumes: {${volumes}: }\n`;
  const { report, keys } = convertCompose({
    content: `services: {${services}}\n${named}${networks}`,
    recognise_databases: true,
  });
  expect(report.errors).toEqual([]);
  expect(report.resources.map(({ kind, name }) => `${kind} ${name}`).join(', ')).toBe(resources);
  expect(keys.length).toBeGreaterThan(0);
});

const folder = join(import.meta.dirname, '../compose/ordinary');

it('sixty files are converted', () => {
  expect(short.length + readdirSync(folder).length).toBeGreaterThanOrEqual(60);
});

it.each(readdirSync(folder).filter((name) => /\.ya?ml$/.test(name)))(
  'the ordinary file %s is accounted for, key by key',
  (name) => {
    const content = readFileSync(join(folder, name), 'utf8');
    const { content: text, keys } = convertCompose({ content, recognise_databases: true });
    expect(keys.length).toBeGreaterThan(0);
    expect(new Set(keys.map(({ path }) => path)).size).toBe(keys.length);
    expect(readTemplate(text).findings.isRefused).toBe(false);
  },
);
