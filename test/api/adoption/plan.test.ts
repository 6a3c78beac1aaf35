import { describe, expect, it } from 'vitest';
import { surveyLimits, withheld } from '../../../agent-protocol/survey.ts';
import type { SurveyedContainer, SurveyedVolume } from '../../../agent-protocol/survey.ts';
import type { PlanEntry } from '../../../api/adoption/answer.ts';
import type { Ground } from '../../../api/adoption/findings.ts';
import { adoptionOf } from '../../../api/adoption/plan.ts';
import { ApplicationCreate } from '../../../api/resources/application.ts';
import { parseCommand } from '../../../store/kinds/command.ts';
import { composed, imageOf, mounted, published, surveyed, surveyOf, volumeOf } from '../../harness/surveyed.ts';

const server = { id: '11111111-1111-4111-8111-111111111111', name: 'one', opensPorts: true };
const ground: Ground = { server, isAllowedRegistry: (registry) => registry !== 'registry.private.test' };

function planOf(
  containers: readonly SurveyedContainer[],
  volumes: readonly SurveyedVolume[] = [],
  changes: Partial<Ground> = {},
): PlanEntry[] {
  return adoptionOf(surveyOf(containers, volumes), { ...ground, ...changes }).plan;
}

/** The plan of the only container. */
function entryOf(changes: Partial<SurveyedContainer>, grounds: Partial<Ground> = {}): PlanEntry {
  const [entry] = planOf([surveyed('web', changes)], [], grounds);
  return entry!;
}

const codesOf = (all: PlanEntry['why']): string[] => all.map(({ code }) => code);

/** What the tests of whole groups compare. */
const inShort = ({ kind, name, possible, why, notes }: PlanEntry) => [
  `${kind} ${name}: ${possible}`,
  codesOf(why).join(' '),
  codesOf(notes).join(' '),
];

describe('the plan of a plain container', () => {
  it('is an application with the image as it runs, beside the old one', () => {
    const plan = planOf([
      surveyed('web', {
        command: ['node', 'server.js', "it's"],
        env: ['DATABASE_URL', 'LOG_LEVEL'],
        health: { port: 80, path: '/healthz' },
        memory_bytes: 512 * 1024 ** 2,
        nano_cpus: 1_500_000_000,
      }),
    ]);
    expect(plan).toEqual([
      {
        kind: 'application',
        name: 'web',
        from: { made_by: 'docker', group: 'web', containers: ['web'], volume: null },
        possible: 'yes',
        why: [],
        notes: [],
        steps: [
          'setpoint adopt one --project PROJECT --manifests > moving.yaml, and write the values of its variables into it',
          'setpoint apply --file moving.yaml, which starts it, beside the old one: both run until you stop that',
          'Once it serves: On the server: docker update --restart no web && docker stop web',
        ],
        env: ['DATABASE_URL', 'LOG_LEVEL'],
        mounts: [],
        manifest: {
          name: 'web',
          server_id: server.id,
          app_type: 'web',
          source_type: 'image',
          image_url: `nginx:1.27@${imageOf('nginx:1.27').id}`,
          replicas: 1,
          restart_policy: 'always',
          exposed_port: 80,
          healthcheck_path: '/healthz',
          start_command: String.raw`node server.js 'it'\''s'`,
          memory_limit: '512m',
          cpu_limit: '1.5',
        },
      },
    ]);
  });

  it('shows what was found, without a plan for it', () => {
    const { found, volumes } = adoptionOf(
      surveyOf([surveyed('web', { mounts: [mounted('data', '/data')] })], [volumeOf('data', { bytes: 42 })]),
      ground,
    );
    expect(found).toEqual([
      {
        name: 'web',
        made_by: 'docker',
        containers: [
          {
            id: surveyed('web').id,
            name: 'web',
            service: 'web',
            image: 'nginx:1.27',
            state: 'running',
            started_at: '2030-01-01T00:00:00Z',
            ports: [],
            volumes: ['data'],
            networks: ['bridge'],
          },
        ],
      },
    ]);
    expect(volumes).toEqual([{ name: 'data', driver: 'local', bytes: 42, used_by: ['web'] }]);
  });

  it.each([
    [['sh', '-c', 'echo "$HOME" && exec "it\'s"']],
    [['a b', '', "'", '"', '\\', '$X', 'line\nbreak', '*', '-x=1,2']],
  ])('has a command that is taken apart into the same words: %j', (command) => {
    const text = entryOf({ command }).manifest?.start_command;
    expect(parseCommand(text ?? '')).toEqual({ words: command });
  });

  it.each([
    ['nginx', 'nginx'],
    ['docker.io/library/nginx:1', 'nginx'],
    ['registry.example:5000/team/app:2', 'registry.example:5000/team/app'],
    [`ghcr.io/a/b@sha256:${'c'.repeat(64)}`, 'ghcr.io/a/b'],
  ])('names image %s by the digest that its own repository has', (name, repository) => {
    const digests = [`other/mirror@sha256:${'d'.repeat(64)}`, `${repository}@sha256:${'e'.repeat(64)}`];
    expect(entryOf({ image: imageOf(name, { digests }) }).manifest?.image_url).toBe(
      `${name.split('@')[0]}@sha256:${'e'.repeat(64)}`,
    );
  });

  it('of an image that is known by its id only has the name that a registry has for it', () => {
    const digests = [`ghcr.io/a/b@sha256:${'e'.repeat(64)}`];
    const image = imageOf(`sha256:${'f'.repeat(64)}`, { digests });
    expect(entryOf({ image }).manifest?.image_url).toBe(digests[0]);
    expect(codesOf(entryOf({ image: { ...image, digests: [] } }).why)).toEqual(['image_unnamed']);
  });

  it.each([
    ['no', 'no', []],
    ['on-failure', 'on-failure', []],
    ['unless-stopped', 'always', []],
  ])('restarts as it did: %s', (restart, policy, why) => {
    const entry = entryOf({ restart });
    expect([entry.manifest?.restart_policy, entry.why]).toEqual([policy, why]);
  });

  it('has the port that a proxy is told, and none if there are several to choose from', () => {
    const labels = { 'traefik.http.services.web.loadbalancer.server.port': '3000' };
    expect(entryOf({ labels, exposed: [80, 443] }).manifest).toMatchObject({ exposed_port: 3000, app_type: 'web' });
    expect(entryOf({ exposed: [80, 443] }).manifest).toMatchObject({ app_type: 'worker' });
    expect(entryOf({ exposed: [80, 443] }).manifest).not.toHaveProperty('exposed_port');
  });

  it('keeps a health check only where an application has the same one', () => {
    expect(entryOf({ health: { port: 9000, path: '/up' } }).manifest).not.toHaveProperty('healthcheck_path');
    expect(entryOf({ health: {} }).manifest).not.toHaveProperty('healthcheck_path');
  });

  it('that is stopped needs no stop', () => {
    const stopped = { state: 'exited', ports: [published(8080, 8080)] };
    const entry = entryOf(stopped);
    expect(inShort(entry)).toEqual(['application web: yes', 'port_taken', 'not_running']);
    expect(entry.steps.join('\n')).not.toContain('docker stop');
  });
});

describe('what cannot become an application as it is', () => {
  const bind = (source: string) => ({ mounts: [{ type: 'bind', source, path: '/in/it', read_only: true }] });
  const setting = (name: string, value = '') => ({ settings: [{ name, value }] });

  it.each<[code: string, says: RegExp, changes: Partial<SurveyedContainer>]>([
    ['host_folder', /\/srv\/data of the server at \/in\/it.*into a volume of Docker/, bind('/srv/data')],
    ['engine_socket', /controls the container engine.*beside Setpoint/, bind('/var/run/docker.sock')],
    ['mount', /a way that applications have not: npipe/, { mounts: [{ ...mounted('x', '/x'), type: 'npipe' }] }],
    ['network_mode', /that of the server/, setting('network_mode', 'host')],
    ['network_mode', /container:abc/, setting('network_mode', 'container:abc')],
    ['privileged', /root on the server/, setting('privileged')],
    ['capabilities', /NET_ADMIN/, setting('capabilities', 'NET_ADMIN, NET_RAW')],
    ['devices', /\/dev\/kvm/, setting('devices', '/dev/kvm')],
    ['gpus', /none/, setting('gpus')],
    ['runtime', /kata/, setting('runtime', 'kata')],
    ['security_options', /seccomp=unconfined/, setting('security_options', 'seccomp=unconfined')],
    ['pid_mode', /host/, setting('pid_mode', 'host')],
    ['ipc_mode', /host/, setting('ipc_mode', 'host')],
    ['uts_mode', /host/, setting('uts_mode', 'host')],
    ['userns_mode', /host/, setting('userns_mode', 'host')],
    ['entrypoint', /image of its own/, setting('entrypoint')],
    ['long_command', /too long/, setting('long_command')],
    ['user', /1000.*USER/, setting('user', '1000')],
    ['working_dir', /\/srv.*WORKDIR/, setting('working_dir', '/srv')],
    ['groups', /998/, setting('groups', '998')],
    ['extra_hosts', /db:10\.0\.0\.1/, setting('extra_hosts', 'db:10.0.0.1')],
    ['links', /\/db/, setting('links', '/db')],
    ['sysctls', /net\.core\.somaxconn/, setting('sysctls', 'net.core.somaxconn')],
    ['of_the_future', /does not know: of_the_future.*Upgrade/, setting('of_the_future')],
    ['constructor', /does not know/, setting('constructor')],
    ['several_ports', /80, 443/, { ports: [published(80, 80), published(443, 443)] }],
    ['protocol', /udp/, { ports: [published(53, 53, { protocol: 'udp' })] }],
    ['image_gone', /no more/, { image: imageOf('nginx:1', { is_here: false, digests: [] }) }],
    ['local_image', /SETPOINT_LOCAL_IMAGES=shop-web/, { image: imageOf('shop-web', { digests: [] }) }],
    ['registry_not_allowed', /registry\.private\.test/, { image: imageOf('registry.private.test/app:1') }],
    ['secret_in_command', /from a variable/, { command: ['serve', `--password=${withheld}`] }],
    ['variables', /my setting/, { env: ['FINE', 'discovery.type', 'MY-KEY', 'my setting'] }],
    ['job', /not started again/, { state: 'exited', restart: 'no' }],
    ['data_inside', /dump/, { image: imageOf('postgres:17') }],
    ['not_accepted', /image_url.*setpoint\//, { image: imageOf('setpoint/app:1') }],
  ])('is told with what to do: %s', (code, says, changes) => {
    const entry = entryOf(changes);
    expect([entry.possible, codesOf(entry.why), entry.manifest, entry.steps]).toEqual(['no', [code], null, []]);
    expect(entry.why[0]?.message).toMatch(says);
  });

  it.each<[code: string, changes: Partial<SurveyedContainer>]>([
    ['clock_files', bind('/etc/localtime')],
    ['tmpfs', { mounts: [{ type: 'tmpfs', source: '', path: '/cache', read_only: false }] }],
    ['tmpfs', setting('tmpfs', '/cache')],
    ['dns', setting('dns', '9.9.9.9')],
    ['ulimits', setting('ulimits', 'nofile')],
    ['shm', setting('shm', '256 MiB')],
    ['init', setting('init')],
    ['stop_signal', setting('stop_signal', 'SIGINT')],
    ['read_only_root', setting('read_only_root')],
    ['dropped_capabilities', setting('dropped_capabilities', 'CHOWN')],
    ['capabilities', setting('capabilities', 'IPC_LOCK, NET_RAW')],
    ['local_image', { image: imageOf('shop-web:2', { digests: [], is_shared: true }) }],
    ['restarting', { state: 'restarting' }],
    ['domains', { labels: { 'traefik.http.routers.web.rule': 'Host(`a.example`) && PathPrefix(`/`)' } }],
  ])('what changes only is a note: %s', (code, changes) => {
    const entry = entryOf(changes);
    expect([entry.possible, entry.why, codesOf(entry.notes)]).toEqual(['yes', [], [code]]);
  });
});

describe('ports of the server', () => {
  it('are taken until the old container stops', () => {
    const entry = entryOf({ ports: [published(8080, 8080)], exposed: [80] });
    expect(inShort(entry)).toEqual(['application web: with_a_stop', 'port_taken', '']);
    expect(entry.manifest).toMatchObject({ exposed_port: 8080 });
    const at = (part: string) => entry.steps.findIndex((step) => step.includes(part));
    expect(at('--no-deploy')).toBeGreaterThanOrEqual(0);
    expect(at('docker stop web')).toBeGreaterThan(at('--no-deploy'));
    expect(at('setpoint deploy web')).toBeGreaterThan(at('docker stop web'));
  });

  it('that lead to another port of the container change', () => {
    const entry = entryOf({ ports: [published(8080, 80)] });
    expect(inShort(entry)).toEqual(['application web: with_a_stop', 'port_changes', 'port_bound']);
  });

  it('that are closed to others, or not open on the server, are told', () => {
    const closed = { server: { ...server, opensPorts: false } };
    const entry = entryOf({ ports: [published(5000, 5000, { address: '127.0.0.1' })] }, closed);
    expect(codesOf(entry.notes)).toEqual(['ports_closed', 'port_local']);
  });

  it('that the engine chooses at each start hold nothing up', () => {
    expect(entryOf({ ports: [published(0, 80)] })).toMatchObject({ possible: 'yes', why: [] });
  });
});

describe('the plan of a compose project', () => {
  const web = composed('shop', 'web', { env: ['DATABASE_URL'], ports: [published(8080, 8080)] });
  const db = composed('shop', 'db', {
    image: imageOf('postgres:17'),
    exposed: [5432],
    env: ['POSTGRES_PASSWORD'],
    mounts: [mounted('shop_pgdata', '/var/lib/postgresql/data')],
  });
  const worker = composed('shop', 'worker', { exposed: [] });
  const volume = volumeOf('shop_pgdata', { project: 'shop', bytes: 4096 });

  it('keeps its services together, with the database as an application that has a volume', () => {
    const { found, plan } = adoptionOf(surveyOf([web, db, worker], [volume]), ground);
    expect(found.map(({ name, made_by: maker, containers }) => [maker, name, containers.length])).toEqual([
      ['compose', 'shop', 3],
    ]);
    expect(plan.map(inShort)).toEqual([
      ['volume pgdata: with_a_stop', 'volume_copied', ''],
      ['database db: with_a_stop', 'volume_copied shared_network', 'database'],
      ['application web: with_a_stop', 'port_taken shared_network', ''],
      ['application worker: with_a_stop', 'shared_network', ''],
    ]);
    expect(plan[0]?.manifest).toEqual({ name: 'pgdata', server_id: server.id });
    expect(plan[1]?.manifest).toMatchObject({ app_type: 'worker', name: 'db' });
    expect(plan[1]?.manifest).not.toHaveProperty('exposed_port');
    expect(plan[1]?.why[1]?.message).toContain('shop_default with web, worker');
    expect(plan[1]?.steps).toEqual([
      'setpoint adopt one --project PROJECT --manifests > moving.yaml, and write the values of its variables into it',
      'setpoint apply --no-deploy --file moving.yaml, which makes it and starts nothing',
      'setpoint create volume pgdata --project PROJECT --on one',
      'setpoint bind pgdata db /var/lib/postgresql/data',
      'On the server: docker update --restart no shop-db-1 && docker stop shop-db-1',
      'On the server: docker run --rm -v shop_pgdata:/from:ro -v sp-vol-ID:/to debian cp -a /from/. /to/ (setpoint get volumes shows the ID of pgdata)',
      'setpoint deploy db',
    ]);
  });

  it('counts the copies of a service as its replicas', () => {
    const copies = [1, 2, 3].map((n) => ({ ...worker, id: `${n}`.repeat(64), name: `shop-worker-${n}` }));
    const [entry] = planOf(copies);
    expect(entry).toMatchObject({ name: 'worker', possible: 'yes', manifest: { replicas: 3 } });
    expect(entry?.from.containers).toEqual(['shop-worker-1', 'shop-worker-2', 'shop-worker-3']);
    const writing = copies.map((one) => ({ ...one, mounts: [mounted('shop_data', '/data')] }));
    expect(codesOf(planOf(writing)[0]?.why ?? [])).toEqual(['several_writers']);
  });

  it('gives services of the same name in two projects names of their own', () => {
    const names = planOf([web, composed('blog', 'web'), surveyed('web')]).map(({ name }) => name);
    expect(names).toEqual(['web', 'shop-web', 'web-web']);
    // no two objects have names that differ in case alone
    const alike = planOf([surveyed('Web'), surveyed('web')], [volumeOf('Rows'), volumeOf('rows')]);
    expect(alike.map(({ name }) => name)).toEqual(['Rows', 'rows-2', 'Web', 'web-web']);
  });
});

describe('an image that was built on the server', () => {
  const stack = { 'com.docker.swarm.service.name': 'shop-web-x8f2k1' };
  const captain = { 'com.docker.swarm.service.name': 'srv-captain--blog' };

  it.each<[maker: string, container: SurveyedContainer]>([
    ['compose', composed('shop', 'web', { image: imageOf('shop-web') })],
    ['compose, an earlier one', composed('shop', 'web', { image: imageOf('shop_web:latest') })],
    [
      'Coolify',
      surveyed('v', { labels: { 'coolify.managed': 'true' }, image: imageOf('vgsco4o48cw0s0wk8k4gcogo:0a1b') }),
    ],
    [
      'Dokploy',
      surveyed('d', { labels: stack, networks: ['dokploy-network'], image: imageOf('shop-web-x8f2k1:latest') }),
    ],
    ['CapRover', surveyed('c', { labels: captain, image: imageOf('img-captain-blog:3') })],
    ['a user, under another name', surveyed('u', { image: imageOf('own:1', { digests: imageOf('nginx').digests }) })],
  ])('by %s is in no registry, also where the engine gives it a digest', (_, container) => {
    const [entry] = planOf([container]);
    expect([entry?.possible, codesOf(entry?.why ?? [])]).toEqual(['no', ['local_image']]);
    const [shared] = planOf([{ ...container, image: { ...container.image, is_shared: true } }]);
    expect(shared?.manifest?.image_url).toBe(container.image.name);
  });

  it('is not mistaken for one of a registry with a like name', () => {
    const images = ['ghcr.io/shop/shop-web:1', 'shop/web:1', 'nginx:1.27'];
    for (const name of images)
      expect(planOf([composed('shop', 'web', { image: imageOf(name) })])[0]?.possible, name).toBe('yes');
  });
});

describe('volumes', () => {
  it('that two services mount cannot be moved', () => {
    const both = ['a', 'b'].map((name) => surveyed(name, { mounts: [mounted('files', '/files')] }));
    expect(planOf(both, [volumeOf('files')]).map(inShort)).toEqual([
      ['volume files: no', 'shared_volume', ''],
      ['application a: no', 'shared_volume', ''],
      ['application b: no', 'shared_volume', ''],
    ]);
  });

  it('that nothing writes to are copied while what reads them runs', () => {
    const reader = surveyed('web', { mounts: [mounted('site', '/site', true)] });
    const [volume, web] = planOf([reader], [volumeOf('site')]);
    expect([inShort(volume!), inShort(web!)]).toEqual([
      ['volume site: yes', '', ''],
      ['application web: yes', '', 'volume_copied'],
    ]);
    expect(web?.mounts).toEqual([{ volume: 'site', path: '/site', read_only: true }]);
    expect(web?.steps).toContain('setpoint bind site web /site --read-only');
    expect(web?.steps.findIndex((step) => step.includes('docker run --rm'))).toBeLessThan(
      web?.steps.indexOf('setpoint deploy web') ?? -1,
    );
  });

  it('without a name are called by what mounts them, and those of nothing are left out', () => {
    const name = 'a'.repeat(64);
    const redis = surveyed('cache', { image: imageOf('redis:8'), mounts: [mounted(name, '/data')] });
    const unnamed = [volumeOf(name, { is_anonymous: true }), volumeOf('b'.repeat(64), { is_anonymous: true })];
    expect(planOf([redis], [...unnamed, volumeOf('old')]).map(inShort)).toEqual([
      ['volume cache-data: with_a_stop', 'volume_copied', ''],
      ['volume old: yes', '', 'unused'],
      ['database cache: with_a_stop', 'volume_copied', 'database'],
    ]);
  });
});

describe('what other tools made', () => {
  it('Coolify: by the names that its users know, without its own parts', () => {
    const labels = {
      'coolify.managed': 'true',
      'coolify.type': 'application',
      'coolify.applicationId': '7',
      'coolify.projectName': 'my-shop',
      'coolify.environmentName': 'production',
      'coolify.resourceName': 'storefront',
      'coolify.pullRequestId': '0',
      'com.docker.compose.project': 'vgsco4o48cw0',
      'com.docker.compose.service': 'vgsco4o48cw0-120000',
      'traefik.http.routers.https-0-vgsco.rule': 'Host(`shop.example`) && PathPrefix(`/`)',
    };
    const image = imageOf('vgsco4o48cw0:0a1b2c', { digests: [] });
    const running = surveyed('vgsco4o48cw0-120000', {
      labels,
      networks: ['coolify'],
      image,
      restart: 'unless-stopped',
    });
    const proxy = surveyed('coolify-proxy', { networks: ['coolify', 'bridge'] });
    const { found, plan } = adoptionOf(surveyOf([running, proxy]), ground);
    expect(found.map(({ made_by: maker, name }) => [maker, name])).toEqual([
      ['coolify', 'coolify'],
      ['coolify', 'my-shop/production'],
    ]);
    expect(plan.map(inShort)).toEqual([
      ['application coolify-proxy: no', 'tool', ''],
      ['application storefront: no', 'local_image', 'tool_network domains'],
    ]);
    const shared = { ...running, image: { ...image, is_shared: true } };
    const [entry] = planOf([shared]);
    expect(entry).toMatchObject({ possible: 'yes', name: 'storefront' });
    expect(entry?.notes.find(({ code }) => code === 'domains')?.message).toContain('shop.example');
    expect(entry?.steps.at(-1)).toBe('Once it serves: Stop it in Coolify (its containers: vgsco4o48cw0-120000)');
    const preview = { ...shared, name: 'vgsco4o48cw0-pr-3', labels: { ...labels, 'coolify.pullRequestId': '3' } };
    expect(planOf([shared, preview]).map(({ name }) => name)).toEqual(['storefront', 'my-shop-production-storefront']);
  });

  it('Dokploy: its services and its compose projects, also the containers outside of its network', () => {
    const service = surveyed('shop-web-x8f2k1.1.abc', {
      labels: { 'com.docker.swarm.service.name': 'shop-web-x8f2k1' },
      networks: ['dokploy-network'],
      image: imageOf('ghcr.io/shop/web:3'),
      restart: 'no',
    });
    const front = composed('shop-blog-q1', 'front', { networks: ['dokploy-network', 'shop-blog-q1_default'] });
    const db = composed('shop-blog-q1', 'db', {
      image: imageOf('mariadb:11'),
      mounts: [mounted('shop-blog-q1_db', '/var/lib/mysql')],
    });
    const own = surveyed('dokploy.1.xyz', { labels: { 'com.docker.swarm.service.name': 'dokploy' } });
    const traefik = surveyed('dokploy-traefik', { networks: ['dokploy-network', 'shop-blog-q1_default'] });
    const { found, plan } = adoptionOf(surveyOf([service, front, db, own, traefik]), ground);
    expect(found.map(({ made_by: maker, name }) => [maker, name])).toEqual([
      ['dokploy', 'dokploy'],
      ['dokploy', 'shop-blog-q1'],
      ['dokploy', 'shop-web-x8f2k1'],
    ]);
    expect(plan.map(inShort)).toEqual([
      ['application dokploy: no', 'tool', ''],
      ['application dokploy-traefik: no', 'tool', ''],
      ['database db: with_a_stop', 'volume_copied shared_network', 'database'],
      ['application front: with_a_stop', 'shared_network', 'domains'],
      ['application shop-web-x8f2k1: yes', '', 'tool_network domains swarm_ports'],
    ]);
    expect(plan.at(-1)?.manifest).toMatchObject({ restart_policy: 'always' });
    expect(plan.at(-1)?.steps.at(-1)).toContain('Stop it in Dokploy');
  });

  it('CapRover: the services of its applications, by the name of each', () => {
    const app = surveyed('srv-captain--blog.1.abc', {
      labels: { 'com.docker.swarm.service.name': 'srv-captain--blog' },
      networks: ['captain-overlay-network'],
      mounts: [mounted('captain--blog-data', '/data')],
      restart: 'no',
    });
    const nginx = surveyed('captain-nginx.1.abc', { labels: { 'com.docker.swarm.service.name': 'captain-nginx' } });
    const plan = planOf([app, nginx], [volumeOf('captain--blog-data')]);
    expect(plan.map(inShort)).toEqual([
      ['volume captain--blog-data: with_a_stop', 'volume_copied', ''],
      ['application blog: with_a_stop', 'volume_copied', 'tool_network domains swarm_ports'],
      ['application captain-nginx: no', 'tool', ''],
    ]);
    expect(plan[1]?.from).toMatchObject({ made_by: 'caprover', group: 'blog' });
    expect(plan[1]?.steps.find((step) => step.startsWith('Stop'))).toContain('Stop it in CapRover');
  });

  it('a swarm: stopped by its service, which would start its containers again', () => {
    const app = surveyed('shop_web.1.abc', {
      labels: { 'com.docker.stack.namespace': 'shop', 'com.docker.swarm.service.name': 'shop_web' },
      networks: ['shop_default'],
      restart: 'no',
    });
    const [entry] = planOf([app]);
    expect(entry).toMatchObject({ name: 'web', from: { made_by: 'stack', group: 'shop' }, possible: 'yes' });
    expect(entry?.steps.at(-1)).toBe('Once it serves: On the server: docker service scale shop_web=0');
  });
});

it('every manifest is one that the API takes, for as many containers as a survey has', () => {
  const containers = Array.from({ length: surveyLimits.containers }, (_, n) =>
    surveyed(n % 3 === 0 ? `${'long '.repeat(60)}${n}` : `web ${n}\u202e`, {
      memory_bytes: n * 1_000_003 + 6 * 1024 ** 2,
      nano_cpus: n * 10_000_001,
      exposed: [n + 1],
    }),
  );
  const plan = planOf(containers);
  expect(plan).toHaveLength(containers.length);
  expect(new Set(plan.map(({ name }) => name)).size).toBe(containers.length);
  for (const { possible, manifest } of plan) {
    expect(possible).toBe('yes');
    ApplicationCreate.parse({ ...manifest, project_id: '22222222-2222-4222-8222-222222222222' });
  }
});
