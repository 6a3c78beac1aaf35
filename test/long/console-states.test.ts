import { randomUUID } from 'node:crypto';
import type { Page, Route } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { KindName } from '../../store/kinds/kinds.ts';
import { commit } from '../../store/unit.ts';
import { password, startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';
import { violationsOf } from '../harness/axe.ts';
import { openPage } from '../harness/browser.ts';
import type { TestPage } from '../harness/browser.ts';
import { pixelsBeyond, signIn } from '../harness/console-page.ts';
import { desiredState, ofDatabase } from '../harness/states.ts';

/** Each list of the console in each state: with nothing, one and many of all, while it is read, and as it cannot be read. */

const many = 300;
const perUnit = 8;
const timeout = 20 * 60_000;
const unlimited = { perMinute: 0, burst: 1 };

const running = new AsyncDisposableStack();
let world: ApiWorld;
let place: { project: string; environment: string; server: string };
/** The browser of each who looks. */
let browsers: Record<'owner' | 'viewer', TestPage>;
let users: Record<'owner' | 'viewer', string>;
/** How many of each there are. */
let count = 0;

beforeAll(async () => {
  world = running.use(await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited } }));
  const owner = await world.owner();
  const viewer = await world.user('user', 'viewer@example.test');
  users = { owner: (await owner.get('/auth/me')).data.id, viewer: viewer.id };
  place = await world.place(owner);
  await world.create(
    'member',
    randomUUID(),
    desiredState('member', { project_id: place.project, user_id: viewer.id, role: 'viewer' }),
  );
  browsers = { owner: running.use(await openPage()), viewer: running.use(await openPage()) };
  for (const [who, { page }] of Object.entries(browsers))
    await signIn(page, world.url, { email: `${who}@example.test`, password });
}, 120_000);
afterAll(() => running.disposeAsync());

interface Made {
  databaseId: string;
  /** The state of each, by its kind. */
  of: { [K in KindName]?: object };
}

/** One more of each kind that a page lists. */
function furtherObjects(n: number): Made {
  const { project: project_id, environment: environment_id, server: server_id } = place;
  const at = { project_id, environment_id, server_id };
  const databaseId = randomUUID();
  const of = {
    project: { name: `project ${n}`, owner_id: users.owner },
    server: { name: `server ${n}` },
    application: { ...at, name: `application ${n}`, internal_id: `a${n}-0a1b2c` },
    database: { ...at, name: `database ${n}`, internal_id: `d${n}-0a1b2c`, run: 'stopped' },
    function: { ...at, name: `function ${n}`, internal_id: `f${n}-0a1b2c` },
    volume: { ...at, name: `volume ${n}` },
    sync: { project_id, name: `sync ${n}`, reader_id: server_id, requested_by: users.owner },
    template: { name: `template ${n}`, author_id: users.owner },
    template_instance: { ...at, name: `instance ${n}`, requested_by: users.owner },
    user: { email: `person-${n}@example.test` },
    registry: { name: `registry ${n}` },
    git_credential: { name: `credential ${n}` },
    ssh_key: { name: `key ${n}` },
    backup_destination: { name: `destination ${n}` },
    backup_schedule: { project_id, of: { kind: 'database', id: databaseId } },
    backup: { project_id, of: ofDatabase(databaseId) },
    service_key: { user_id: users.owner, name: `key ${n}` },
  };
  return { databaseId, of };
}

/** Makes as many of each as are wanted. */
async function fill(wanted: number): Promise<void> {
  while (count < wanted) {
    const made = Array.from({ length: Math.min(perUnit, wanted - count) }, (_, at) => furtherObjects(count + at + 1));
    for (const kind of Object.keys(made[0]?.of ?? {}) as KindName[]) {
      const unit = world.repo.begin();
      for (const one of made)
        unit.create(
          kind,
          kind === 'database' ? one.databaseId : randomUUID(),
          desiredState(kind, one.of[kind] as never),
        ); // of this kind
      await commit(unit);
    }
    const unit = world.repo.begin();
    for (const user_id of Object.values(users))
      for (const _ of made) unit.create('notification', randomUUID(), desiredState('notification', { user_id }));
    await commit(unit);
    count += made.length;
  }
  await world.settled();
}

const paths = (): string[] => [
  'projects',
  `projects/${place.project}`,
  `projects/${place.project}/-/members`,
  'servers',
  `servers/${place.server}/workloads`,
  'databases',
  'functions',
  'volumes',
  'backups',
  'backups/schedules',
  'templates',
  'instances',
  'syncs',
  'activity',
  'notifications',
  'account/keys',
  'account/sessions',
  'settings/users',
  'settings/registries',
  'settings/git-credentials',
  'settings/ssh-keys',
  'settings/destinations',
];
const views = [
  { colorScheme: 'light', width: 1280 },
  { colorScheme: 'dark', width: 1280 },
  { colorScheme: 'light', width: 360 },
  { colorScheme: 'dark', width: 360 },
] as const;

/** What is wrong with each page in each view, once `isShown` says that the page is in its state. */
async function look(page: Page, isShown: (page: Page) => Promise<unknown>): Promise<string[]> {
  const faults: string[] = [];
  for (const { colorScheme, width } of views) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.setViewportSize({ width, height: 900 });
    for (const path of paths()) {
      const at = `${path}, ${colorScheme}, ${width}`;
      // each page is read anew, and none is what the one before has read
      await page.goto('about:blank');
      await page.goto(`${world.url}/console#/default/${path}`);
      await page.getByRole('heading', { level: 1 }).first().waitFor();
      await isShown(page).catch((error: unknown) => faults.push(`${at}: ${String(error).slice(0, 300)}`));
      faults.push(...(await violationsOf(page)).map((fault) => `${at}: ${fault}`));
      const beyond = await pixelsBeyond(page);
      if (beyond > 0) faults.push(`${at}: ${beyond} pixels are beyond the edge`);
    }
  }
  return faults;
}

/** All has been read. */
const isRead = async (page: Page): Promise<void> => {
  const reading = page.getByRole('main').locator('.skeleton');
  await reading.first().waitFor({ state: 'detached' });
};

describe.each(['owner', 'viewer'] as const)('as %s, each list', (who) => {
  it.each([
    ['nothing', 0],
    ['one', 1],
    ['many', many],
  ])('is whole and accessible with %s of all', { timeout }, async (_, wanted) => {
    await fill(wanted);
    const { page, complaints } = browsers[who];
    const refused = complaints.length;
    expect(await look(page, isRead)).toEqual([]);
    // what a viewer may not read is refused
    const others = complaints.slice(refused).filter((line) => !/status of 403/.test(line));
    expect(others).toEqual([]);
  });
});

/** Answers requests for lists in this way; what says who asks and what there is to ask for is answered. */
async function answering(page: Page, how: (route: Route) => Promise<void>): Promise<AsyncDisposable> {
  const known = /\/(?:auth\/(?!sessions)|openapi|settings$|health|ws)/;
  const pattern = /\/api\/v1\//;
  const handle = (route: Route): Promise<void> =>
    known.test(new URL(route.request().url()).pathname) ? route.continue() : how(route);
  await page.route(pattern, handle);
  return { [Symbol.asyncDispose]: () => page.unroute(pattern, handle) };
}

it('each list is accessible while it is read', { timeout }, async () => {
  const { page } = browsers.owner;
  const held: Route[] = [];
  await using _ = await answering(page, async (route) => void held.push(route));
  const isReading = (on: Page) => on.locator('.skeleton, [aria-busy=true]').first().waitFor({ timeout: 5_000 });
  expect(await look(page, isReading)).toEqual([]);
  expect(held.length).toBeGreaterThan(0);
});

it('each list says why it cannot be read, and is accessible then', { timeout }, async () => {
  const { page } = browsers.owner;
  const error = { code: 'UNAVAILABLE', message: 'The store does not answer', details: [] };
  const body = JSON.stringify({ success: false, error, meta: { request_id: randomUUID() } });
  await using _ = await answering(page, (route) =>
    route.fulfill({ status: 503, contentType: 'application/json', body }),
  );
  const saysWhy = (on: Page) => on.getByText('The store does not answer').first().waitFor({ timeout: 15_000 });
  expect(await look(page, saysWhy)).toEqual([]);
});
