import { randomUUID } from 'node:crypto';
import { setInterval as ticks, setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { commit } from '../../store/unit.ts';
import { password, startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';
import { openPage } from '../harness/browser.ts';
import { signIn } from '../harness/console-page.ts';
import { memoryOf } from '../harness/page-memory.ts';
import type { PageMemory } from '../harness/page-memory.ts';
import { desiredState } from '../harness/states.ts';
import { until } from '../harness/until.ts';

/** A console that stays open beside 1,000 applications of which 50 change each second. */

const minutes = Number(process.env['CONSOLE_MINUTES'] ?? 1);
const applications = 1000;
const perSecond = 50;
/** Bytes that the heap may have more at the end than after the first quarter. */
const maxGrowth = 3_000_000;
/** Of a page that would draw all cards: some 30,000. */
const maxNodes = 6000;
const unlimited = { perMinute: 0, burst: 1 };
const perUnit = 8;

const phases = ['running', 'deploying', 'failed', 'stopped', 'error'] as const;

/** Counts frames and long tasks of the page from now on. */
const beginToCount = `{
  const seen = { from: performance.now(), frames: 0, longTasks: 0, longest: 0 };
  window.seenByTest = seen;
  const frame = () => {
    seen.frames += 1;
    if (window.seenByTest === seen) requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  window.tasksOfTest?.disconnect();
  window.tasksOfTest = new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) {
      seen.longTasks += 1;
      seen.longest = Math.max(seen.longest, duration);
    }
  });
  window.tasksOfTest.observe({ type: 'longtask' });
}`;
const counted = '({ ...window.seenByTest, ms: performance.now() - window.seenByTest.from })';
const Counted = z.object({ frames: z.number(), longTasks: z.number(), longest: z.number(), ms: z.number() });

async function makeApplications(
  world: ApiWorld,
  place: { project: string; environment: string; server: string },
): Promise<string[]> {
  const ids: string[] = [];
  while (ids.length < applications) {
    const unit = world.repo.begin();
    for (let n = 0; n < perUnit; n += 1) {
      const id = randomUUID();
      const name = `web-${String(ids.length).padStart(4, '0')}`;
      const { project: project_id, environment: environment_id, server: server_id } = place;
      const own = { project_id, environment_id, server_id, name, internal_id: `${name}-0a1b2c` };
      unit.create('application', id, desiredState('application', own));
      ids.push(id);
    }
    await commit(unit);
  }
  return ids;
}

async function observe(world: ApiWorld, id: string, phase: (typeof phases)[number]): Promise<void> {
  const it = await world.repo.get('application', id);
  if (it === undefined) throw new Error(`The application is gone: ${id}`);
  const observed = { phase, ready_replicas: phase === 'running' ? 1 : 0, consecutive_failures: 0 };
  await world.repo.observe(
    it,
    { ...observed, crash_loop_counted: false, observedGeneration: it.meta.generation, conditions: [] },
    [],
  );
}

it(
  'a console shows 50 changes a second of 1,000 applications, and holds no more after a while than at first',
  { timeout: (minutes + 3) * 60_000 },
  async () => {
    await using world = await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited } });
    const owner = await world.owner();
    const place = await world.place(owner);
    const ids = await makeApplications(world, place);
    await world.settled();
    await using browser = await openPage();
    const { page, complaints } = browser;
    const at = (path: string): string => `${world.url}/console#/default/${path}`;
    await signIn(page, world.url, { email: 'owner@example.test', password });
    const session = await page.context().newCDPSession(page);
    const counts = page.getByRole('navigation', { name: 'Applications by status' });

    let changes = 0;
    const stop = new AbortController();
    const load = (async () => {
      const from = performance.now();
      for await (const _ of ticks(20, undefined, { signal: stop.signal }))
        for (const due = ((performance.now() - from) * perSecond) / 1000; changes < due; changes += 1) {
          // each in its turn, and each time another phase than before
          const id = ids[(changes * 7) % ids.length] ?? '';
          const turns = Math.floor(changes / ids.length);
          await observe(world, id, phases[(changes + turns) % phases.length] ?? 'running');
        }
    })().catch((error: unknown) => {
      if (!stop.signal.aborted) throw error;
    });

    /** Pages that a person turns to and back; the list of the project is looked at in between. */
    const turn = async (): Promise<void> => {
      await page.goto(at('projects'));
      await page.getByRole('heading', { name: 'Projects', level: 1 }).waitFor();
      await page.goto(at(`servers/${place.server}/workloads`));
      await page.getByRole('table', { name: /^Workloads on/ }).waitFor();
      await page.goto(at(`projects/${place.project}`));
      const list = page.getByRole('list', { name: 'Workloads of production' });
      await list.getByRole('listitem').first().waitFor();
      await list.hover();
      await page.mouse.wheel(0, 20_000);
      await page.mouse.wheel(0, -20_000);
      await page.mouse.move(0, 0);
    };
    const quarter = async (): Promise<PageMemory> => {
      await turn();
      await page.evaluate(beginToCount);
      await delay(minutes * 15_000);
      const { frames, longTasks, longest, ms } = Counted.parse(await page.evaluate(counted));
      const memory = await memoryOf(session);
      console.log(
        `${Math.round((frames * 1000) / ms)} frames a second, ${longTasks} long tasks, the longest ${Math.round(longest)} ms;`,
        `${(memory.heap / 1e6).toFixed(1)} MB, ${memory.nodes} nodes, ${memory.listeners} listeners, ${changes} changes`,
      );
      return memory;
    };
    const all: PageMemory[] = [];
    for (let n = 0; n < 4; n += 1) all.push(await quarter());
    stop.abort();
    await load;

    for (const id of ids) await observe(world, id, 'running');
    const isShown = async (): Promise<boolean> => /^1000\s+Running$/.test((await counts.innerText()).trim());
    await until('the page shows the last change of each', isShown, { explain: () => counts.innerText() });
    const [first, last] = [all[0], all.at(-1)];
    expect((last?.heap ?? Infinity) - (first?.heap ?? 0)).toBeLessThan(maxGrowth);
    for (const { nodes } of all) expect(nodes).toBeLessThan(maxNodes);
    expect(await page.getByRole('listitem').count()).toBeLessThan(200);
    expect(complaints).toEqual([]);
    expect(world.faults).toEqual([]);
  },
);
