import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { labels } from '../../agent/runtime/runtime.ts';
import type { ApiObject } from '../../cli/client.ts';
import { keys } from '../../store/keys.ts';
import { docker } from '../harness/engine.ts';
import { Installation } from '../harness/installation.ts';
import { freePort, present } from '../harness/program.ts';
import { Release } from '../harness/release.ts';
import { ensureTestImages } from '../harness/test-image.ts';

/** The last commit of the release before. */
const before = '7fbba61b40a40054db9d9dea7f4b24b6fd487104';
const replicas = [0, 1] as const;
type Index = (typeof replicas)[number];
const Inspected = z.array(
  z.object({
    Id: z.string(),
    State: z.object({ StartedAt: z.string() }),
    Mounts: z.array(z.object({ Destination: z.string() })),
  }),
);

/** The steps of `docs/operations.md` for two replicas on one etcd and an agent, in the order of the tests. */
describe('an upgrade of the release before, one program after the other', () => {
  const started = new AsyncDisposableStack();
  let release: Release;
  let town: Installation;
  let image: string;
  /** Applications by name, with the port of their server that leads to them. */
  const apps = new Map<string, { id: string; port: number }>();
  /** What each application answers in its variable COLOUR; `undefined`: it was stopped. */
  const colours = new Map<string, string | undefined>();
  /** Names of projects whose creation was answered. */
  const acknowledged: string[] = [];

  beforeAll(async () => {
    release = started.use(await Release.of(before));
    ({ http: image } = await ensureTestImages());
    town = started.use(await Installation.start({ store: 'etcd', replicas: 2, command: release.command }));
    await Promise.all(['web', 'pair', 'idle'].map((name) => create(name)));
    await Promise.all(['web', 'pair', 'idle'].map((name) => deploy(0, name, `${name} of the release before`)));
  }, 120_000);
  afterAll(() => started.disposeAsync());

  async function create(name: string): Promise<void> {
    const port = await freePort();
    const own = name === 'pair' ? { replicas: 2 } : {};
    const source = { source_type: 'image', image_url: image, exposed_port: port, healthcheck_path: '/healthz' };
    const { id } = await town.createApplication({ name, ...source, ...own, env: { PORT: String(port) } });
    apps.set(name, { id, port });
  }

  const path = (name: string): string => `/api/v1/applications/${apps.get(name)?.id}`;

  /** Asks one replica for a deployment with another variable, and waits for its success. */
  async function deploy(index: Index, name: string, colour: string): Promise<void> {
    const client = town.clientAt(index);
    await client.request('PATCH', `${path(name)}/env`, { COLOUR: colour });
    const { id } = await client.object('POST', `${path(name)}/deploy`, {});
    await town.deployment(id, 'succeeded');
    colours.set(name, colour);
  }

  async function stop(index: Index, name: string): Promise<void> {
    await town.clientAt(index).request('POST', `${path(name)}/stop`);
    colours.set(name, undefined);
    await town.until(`${name} is stopped`, async () => (await running(name)).size === 0);
  }

  /** Creates a volume on the server; answers with its id. */
  async function createVolume(index: Index, name: string): Promise<string> {
    const place = { project_id: town.project.id, server_id: town.server.id };
    return (await town.clientAt(index).object('POST', '/api/v1/volumes', { ...place, name })).id;
  }

  async function volumeStatus(id: string): Promise<string | undefined> {
    return (await town.clientAt(1).object('GET', `/api/v1/volumes/${id}`)).status;
  }

  async function containers(name: string): Promise<z.infer<typeof Inspected>> {
    const label = `label=${labels.workload}=${apps.get(name)?.id}`;
    const ids = await docker('ps', '--quiet', '--no-trunc', '--filter', label);
    return ids === '' ? [] : Inspected.parse(JSON.parse(await docker('inspect', ...ids.split('\n'))));
  }

  /** When each running container of the application was started, by its id. */
  async function running(name: string): Promise<ReadonlyMap<string, string>> {
    return new Map((await containers(name)).map((it) => [it.Id, it.State.StartedAt]));
  }

  /** Whether the leader has nothing left to do for the application. */
  async function isSettled(name: string): Promise<boolean> {
    const { conditions, generation, observed_generation } = await town.clientAt(1).object('GET', path(name));
    const isBusy = conditions?.some(({ type, status }) => type === 'Reconciling' && status === 'true');
    return isBusy !== true && observed_generation === generation;
  }

  /** Where the running containers of the application mount something. */
  async function mountsOf(name: string): Promise<string[]> {
    return (await containers(name)).flatMap(({ Mounts }) => Mounts.map(({ Destination }) => Destination));
  }

  /** The same for every application. */
  async function allRunning(): Promise<Record<string, ReadonlyMap<string, string>>> {
    const all = [...apps.keys()].map(async (name) => [name, await running(name)] as const);
    return Object.fromEntries(await Promise.all(all));
  }

  async function metric(index: Index, name: string): Promise<number> {
    const text = await (await fetch(`${town.url(index)}/metrics`)).text();
    return Number(new RegExp(`^${RegExp.escape(name)}(?:\\{[^}]*\\})? (.+)$`, 'm').exec(text)?.[1]);
  }

  /** The replica whose metric is 1, once exactly one has that. */
  async function only(name: string): Promise<Index> {
    const [index] = await town.until(
      `${name} is 1 at one replica`,
      async () => {
        const having: Index[] = [];
        for (const it of replicas) if (isUp(it) && (await metric(it, name)) === 1) having.push(it);
        return having.length === 1 && having;
      },
      60_000,
    );
    return index!;
  }

  const isUp = (index: Index): boolean => town.replicas[index]?.program.isRunning === true;
  const leader = (): Promise<Index> => only('setpoint_leader');
  const agentsReplica = (): Promise<Index> => only('setpoint_agents_connected');

  /** As `systemctl restart` does it, after the program was replaced. */
  async function replace(index: Index, command: string): Promise<void> {
    const { program } = town.replicas[index]!;
    await program.kill('SIGTERM');
    program.command = command;
    program.start();
    await town.ready(index);
  }

  async function restartAgent(command: string): Promise<void> {
    await town.agent.kill('SIGTERM');
    town.agent.command = command;
    town.agent.start();
    await agentsReplica();
  }

  /** Ends the leadership as an expired lease does. */
  async function dropLeadership(): Promise<void> {
    await town.etcd?.etcdctl('del', keys.leader('controllers'));
  }

  /** Each replica shows all that was acknowledged, and answers for the agent wherever that is connected. */
  async function expectAllThere(): Promise<void> {
    for (const index of replicas) acknowledged.push((await note(index)).name ?? '');
    await Promise.all(replicas.map(expectAllAt));
    for (const [name, colour] of colours) {
      if (colour === undefined) expect((await running(name)).size).toBe(0);
      else expect(await (await fetch(`http://127.0.0.1:${apps.get(name)?.port}/env/COLOUR`)).text()).toBe(colour);
    }
  }

  function note(index: Index): Promise<ApiObject> {
    const name = `note-${acknowledged.length}`;
    return town.clientAt(index).object('POST', '/api/v1/projects', { name });
  }

  async function expectAllAt(index: Index): Promise<void> {
    const client = town.clientAt(index);
    await town.until(`replica ${index} shows every project`, async () => {
      const names = new Set((await client.list('/api/v1/projects')).map(({ name }) => name));
      return acknowledged.every((name) => names.has(name));
    });
    await town.until(`replica ${index} shows every application as it was asked for`, async () => {
      const shown = await client.list('/api/v1/applications');
      return [...colours].every(([name, colour]) => {
        const status = shown.find(({ id }) => id === apps.get(name)?.id)?.status;
        return status === (colour === undefined ? 'stopped' : 'running');
      });
    });
    const [server] = await client.list('/api/v1/servers');
    expect(server?.status).toBe('active');
    for (const name of apps.keys()) {
      const env = await client.request('GET', `${path(name)}/env`);
      if (colours.get(name) !== undefined) expect(JSON.stringify(env)).toContain(colours.get(name));
      const deployments = await client.list(`${path(name)}/deployments`);
      expect(deployments[0]?.status).toBe('succeeded');
      const log = await client.request('GET', `${path(name)}/runtime-logs`);
      expect(JSON.stringify(log)).toContain('listening on');
    }
  }

  it('keeps all running and leaves the lead to the older replica when the first one is replaced', async () => {
    await expectAllThere();
    const untouched = await allRunning();
    await replace(0, present);
    await agentsReplica();
    for (let round = 0; round < 4; round++) {
      await dropLeadership();
      expect(await leader()).toBe(1);
    }
    await expectAllThere();
    expect(await allRunning()).toEqual(untouched);
    expect(await metric(1, 'setpoint_mirror_unreadable_records')).toBe(0);
  });

  it('refuses what the older leader does not know, and writes nothing of it', async () => {
    expect(await leader()).toBe(1);
    const refusal = { status: 503, reasons: ['not_written', 'earlier_leader'] };
    await expect(createVolume(0, 'data')).rejects.toMatchObject(refusal);
    const newer = town.clientAt(0);
    expect(await newer.list('/api/v1/volumes')).toEqual([]);
    const settings = newer.request('PUT', '/api/v1/settings', { project_creation: 'admins' });
    await expect(settings).rejects.toMatchObject(refusal);
    const ports = { direct_ports: { from: 2000 } };
    await expect(newer.request('PUT', `/api/v1/servers/${town.server.id}`, ports)).rejects.toMatchObject(refusal);
    expect(await metric(0, 'setpoint_unattended_objects')).toBeNaN();
  });

  it('does what is asked of either replica while both releases run', async () => {
    const { pair, web, idle } = await allRunning();
    await deploy(0, 'web', 'asked of the newer');
    await stop(1, 'idle');
    await create('fresh');
    await deploy(1, 'fresh', 'asked of the older');
    await expectAllThere();
    const { fresh, ...now } = await allRunning();
    expect(now).toEqual({ pair, web: expect.any(Map), idle: new Map() });
    expect([...(now['web']?.keys() ?? [])]).not.toEqual([...(web?.keys() ?? [])]);
    expect([fresh?.size, idle?.size]).toEqual([1, 1]);
  });

  it('lets no container go when the agent moves to the newer replica and back to the older', async () => {
    const untouched = await allRunning();
    await restartAgent(release.command);
    expect(await agentsReplica()).toBe(0);
    await expectAllThere();
    await replace(0, present);
    expect(await agentsReplica()).toBe(1);
    await expectAllThere();
    expect(await allRunning()).toEqual(untouched);
    expect(await metric(1, 'setpoint_mirror_unreadable_records')).toBe(0);
  });

  it('keeps all running when the other replica is replaced, and a newer one leads', async () => {
    const untouched = await allRunning();
    await replace(1, present);
    await leader();
    await agentsReplica();
    await expectAllThere();
    // What the newer replica created has a host name, which the older leader did not know: its container is replaced for
    // that. Another instance covers it until that is done, so that its containers change twice within one rollout.
    const replaced = await town.until(
      'its instance is replaced, and the one that covered it is gone',
      async () => {
        if (!(await isSettled('fresh'))) return false;
        const now = await running('fresh');
        return now.size === 1 && untouched['fresh']?.keys().every((id) => !now.has(id)) === true && now;
      },
      60_000,
    );
    expect(await allRunning()).toEqual({ ...untouched, fresh: replaced });
    await deploy(1, 'web', 'with the agent of before');
    await stop(0, 'fresh');
    await expectAllThere();
    const { pair } = await allRunning();
    expect(pair).toEqual(untouched['pair']);
  });

  it('keeps all running when the agent is replaced, which then knows its control plane', async () => {
    const untouched = await allRunning();
    await restartAgent(present);
    await town.until('the agent knows the key', async () =>
      (await town.agent.log()).includes('Learned the key of the control plane'),
    );
    await expectAllThere();
    expect(await allRunning()).toEqual(untouched);
    await deploy(0, 'web', 'all of today');
    await expectAllThere();
    expect((await allRunning())['pair']).toEqual(untouched['pair']);
  });

  it('takes what was refused now that no older replica leads', async () => {
    const volume = await createVolume(0, 'data');
    await town.until('the volume is available', async () => (await volumeStatus(volume)) === 'available');
    const { id } = apps.get('web') ?? { id: '' };
    const binding = { workload_type: 'application', workload_id: id, mount_path: '/data' };
    await town.clientAt(1).request('POST', `/api/v1/volumes/${volume}/bind`, binding);
    await town.until('the volume is bound', async () => (await volumeStatus(volume)) === 'bound');
    await deploy(1, 'web', 'with its volume');
    expect(await mountsOf('web')).toEqual(['/data']);
    await expectAllThere();
  });

  it('loses nothing when one replica goes back and forth, as the agent refuses the older one', async () => {
    const untouched = await allRunning();
    await replace(0, release.command);
    expect(await leader()).toBe(1);
    expect(await metric(0, 'setpoint_mirror_unreadable_records')).toBeGreaterThan(0);
    await restartAgent(present);
    expect(await agentsReplica()).toBe(1);
    expect(await town.agent.log()).toContain('Another control plane than the known one answered');
    await expectAllThere();
    expect(await allRunning()).toEqual(untouched);
    await replace(0, present);
    await deploy(0, 'web', 'there again');
    await expectAllThere();
    expect((await allRunning())['pair']).toEqual(untouched['pair']);
    expect(await metric(0, 'setpoint_mirror_unreadable_records')).toBe(0);
  });

  it('loses no volume while a replica of the release before leads again, and shows that it waits', async () => {
    const untouched = await allRunning();
    await replace(0, release.command);
    await dropLeadership();
    expect(await leader()).toBe(0);
    const unattended = () => metric(1, 'setpoint_unattended_objects{kind="volume"}');
    await town.until('the newer replica counts the volume', async () => (await unattended()) === 1);
    const [volume] = await town.clientAt(1).list('/api/v1/volumes');
    const refused = { status: 503, reasons: ['not_written', 'earlier_leader'] };
    await expect(town.clientAt(1).request('POST', `${path('web')}/deploy`, {})).rejects.toMatchObject(refused);
    await town.until('the newer replica logs that', async () =>
      (await town.replicas[1]!.program.log()).includes('does not know these objects'),
    );
    expect(await allRunning()).toEqual(untouched);
    await replace(0, present);
    await leader();
    expect(await volumeStatus(volume?.id ?? '')).toBe('bound');
    expect(await unattended()).toBeNaN();
    await deploy(0, 'web', 'with its volume again');
    expect(await mountsOf('web')).toEqual(['/data']);
    await expectAllThere();
  });
});
