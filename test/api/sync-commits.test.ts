import { createHash } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { syncController } from '../../controllers/sync/reconcile.ts';
import { commit as commitUnit } from '../../store/unit.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { lead } from '../harness/leading.ts';
import { seeded } from '../harness/seeded.ts';
import type { Seeded } from '../harness/seeded.ts';
import { until } from '../harness/until.ts';
import { longTag } from '../layer-report.ts';

/** Images of applications and volumes by their names. */
interface Declared {
  images: Map<string, string>;
  volumes: Set<string>;
}

interface Commit {
  id: string;
  files: ReadonlyMap<string, string>;
  /** Absent: it is broken. */
  declares?: Declared;
}

const running = new AsyncDisposableStack();
let world: ApiWorld;
let owner: Client;
/** The commit that is the head of each repository, and all that it had. */
const heads = new Map<string, Commit>();
const commits = new Map<string, Commit>();

beforeAll(async () => {
  const unlimited = { perMinute: 0, burst: 1 };
  world = running.use(await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited } }));
  const agents = {
    async call(
      _tenant: string,
      _server: string,
      params: { method: string; repository_url?: string; commit?: string | undefined },
    ) {
      const { method, repository_url: url = '', commit = '' } = params;
      if (method === 'git.head') return { commit: heads.get(url)?.id };
      const files = [...(commits.get(commit)?.files ?? [])].map(([path, text]) => ({
        path,
        content: Buffer.from(text).toString('base64'),
      }));
      return { commit, commit_message: 'Change', files };
    },
  };
  running.use(await lead(world, world.clock, syncController({ agents, apply: world.applyCommit })));
  owner = await world.owner();
});
afterAll(async () => {
  await running.disposeAsync();
  expect(world.faults).toEqual([]);
});

const names = ['ant', 'bee', 'cat', 'dog', 'eel', 'fox'];
const broken = [
  'kind: Nothing\n',
  'a: [\n',
  'apiVersion: setpoint/v1\nkind: Application\nmetadata: {name: ant}\nspec: {image_url: ant:1, server: nowhere}\n',
  'apiVersion: setpoint/v1\nkind: Volume\nmetadata: {name: twice}\n---\napiVersion: setpoint/v1\nkind: Volume\nmetadata: {name: twice}\n',
];

function written({ images, volumes }: Declared): Map<string, string> {
  const files = new Map<string, string>();
  for (const [name, image] of images)
    files.set(
      `deploy/${name}.yaml`,
      `apiVersion: setpoint/v1\nkind: Application\nmetadata: {name: ${name}}\nspec: {image_url: "${image}", exposed_port: 8080}\n`,
    );
  for (const name of volumes)
    files.set(
      `deploy/volumes/${name}.json`,
      JSON.stringify({ apiVersion: 'setpoint/v1', kind: 'Volume', metadata: { name } }),
    );
  return files;
}

/** The next head after some commits: a change, a renaming, a removal, a broken file or, by force, an earlier commit. */
function next(random: Seeded, before: readonly Commit[], at: number): Commit {
  const pick = <T>(all: readonly T[]): T => all[Math.floor(random.uniform() * all.length)]!;
  const good = before.filter(({ declares }) => declares !== undefined);
  const last = good.at(-1)?.declares ?? { images: new Map<string, string>(), volumes: new Set<string>() };
  const declares: Declared = { images: new Map(last.images), volumes: new Set(last.volumes) };
  const chance = random.uniform();
  if (chance < 0.12 && before.length > 3) return pick(before.slice(0, -1));
  const changed = pick(names);
  if (chance < 0.3 && declares.images.size > 1) {
    const [from] = [...declares.images];
    const image = from![1];
    declares.images.delete(from![0]);
    if (chance < 0.22) declares.images.set(changed, image);
  } else if (chance < 0.45) {
    if (!declares.volumes.delete(changed)) declares.volumes.add(changed);
  } else declares.images.set(changed, `${changed}:${at}`);
  if (declares.images.size === 0) declares.images.set(changed, `${changed}:${at}`);
  const isBroken = chance > 0.82 && before.length > 0;
  const files = written(declares);
  if (isBroken) files.set('deploy/more.yaml', pick(broken));
  const id = createHash('sha1')
    .update(`${at} ${JSON.stringify([...files])}`)
    .digest('hex');
  return { id, files, ...(!isBroken && { declares }) };
}

async function leadsTo(count: number, seed: number): Promise<void> {
  const random = seeded(seed);
  const { project, server } = await world.place(owner);
  await owner.put(`/projects/${project}`, { default_server_id: server });
  const url = `https://git.example.test/${seed}.git`;
  const all: Commit[] = [];
  let id = '';
  let good: Commit | undefined;
  for (let at = 0; at < count; at += 1) {
    const head = next(random, all, at);
    all.push(head);
    commits.set(head.id, head);
    heads.set(url, head);
    if (id === '') {
      const body = { project_id: project, name: 'shop', repository_url: url, branch: 'main', path: 'deploy' };
      id = (await owner.post('/syncs', { ...body, interval_seconds: 86_400 })).data.id;
    } else await owner.post(`/syncs/${id}/sync`, {});
    if (head.declares !== undefined) good = head;
    const phase = head.declares === undefined ? 'failed' : 'in_sync';
    const shown = await until(
      `commit ${at} of seed ${seed} leads to ${phase}`,
      async () => {
        await leave(project);
        const it = (await owner.get(`/syncs/${id}`)).data;
        if (it.commit_wanted !== head.id) return undefined;
        // whoever removes a volume has to say so
        if (it.needs_force.length > 0) await owner.post(`/syncs/${id}/sync`, { force: it.needs_force });
        return it.status === phase ? it : undefined;
      },
      { everyMs: 10, explain: async () => JSON.stringify((await owner.get(`/syncs/${id}`)).data) },
    );
    expect(shown.commit_applied).toBe(good?.id);
    await leave(project);
    expect(await state(project), `after commit ${at} of seed ${seed}`).toEqual({
      images: Object.fromEntries(good?.declares?.images ?? []),
      volumes: [...(good?.declares?.volumes ?? [])].toSorted(),
    });
  }
}

/** What is to go is gone: their controllers do not run here. */
async function leave(project: string): Promise<void> {
  await world.settled();
  const view = world.mirror.tenant('default');
  for (const kind of ['application', 'volume'] as const)
    for (const it of view.by(kind, 'project', project)) {
      if (it.meta.deletionRequestedAt === undefined) continue;
      const leaving = await world.repo.get(kind, it.meta.id);
      if (leaving === undefined) continue;
      const unit = world.repo.begin();
      for (const finalizer of leaving.meta.finalizers) unit.release(leaving, finalizer);
      await commitUnit(unit);
    }
  await world.settled();
}

async function state(project: string): Promise<object> {
  const applications = (await owner.get(`/applications?projectId=${project}&limit=100`)).data;
  const volumes = (await owner.get(`/volumes?projectId=${project}&limit=100`)).data;
  const images = applications.map((it: { name: string; image_url: string }) => [it.name, it.image_url]);
  return {
    images: Object.fromEntries(images),
    volumes: volumes.map(({ name }: { name: string }) => name).toSorted(),
  };
}

it('after each of fifty commits all is as the last good one declares it', () => leadsTo(50, 1));
it.each([2, 3, 4, 5, 6, 7, 8])('as after those of seed %i', { tags: [longTag] }, (seed) => leadsTo(50, seed));
