import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createClient } from '../../cli/client.ts';
import { apply, applyApplication } from '../../cli/verbs/apply.ts';
import { declare } from '../../cli/verbs/declare.ts';
import type { ApplicationManifest } from '../../manifests/application.ts';
import { Answering } from '../harness/answering.ts';

const manifest: ApplicationManifest = {
  apiVersion: 'setpoint/v1',
  kind: 'Application',
  metadata: { name: 'web' },
  spec: { project: 'shop', environment: 'production', server: 'one', source_type: 'image', image_url: 'web:2' },
};
const app = {
  id: 'a',
  name: 'web',
  environment_id: 'e',
  server_id: 's',
  source_type: 'image',
  image_url: 'web:2',
  run: 'running',
  status: 'running',
  current_deployment_id: 'd1',
  deployment_id: 'd2',
  is_source_deployed: true,
};

let lines: string[];
beforeEach(() => {
  lines = [];
  vi.spyOn(console, 'log').mockImplementation((line: string) => void lines.push(line));
});
afterEach(() => vi.restoreAllMocks());

/** What applying the same manifest again prints, and the deployments that it makes. */
async function applied(
  changes: object,
  newest: string,
  more: object = {},
): Promise<{ printed: string[]; made: number }> {
  await using plane = await Answering.start({
    'GET /api/v1/projects': () => [{ id: 'p', name: 'shop' }],
    'GET /api/v1/projects/p/environments': () => [{ id: 'e', name: 'production' }],
    'GET /api/v1/servers': () => [{ id: 's', name: 'one' }],
    'GET /api/v1/applications': () => [{ ...app, ...changes }],
    'GET /api/v1/deployments/d2': () => ({ id: 'd2', number: 2, status: newest }),
    'POST /api/v1/applications/a/deploy': () => ({ id: 'd3', number: 3, status: 'queued' }),
  });
  const client = createClient({ server: plane.url, tenant: 'default' });
  await applyApplication(client, manifest, { wait: false, ...more }, new AbortController().signal);
  return { printed: lines, made: plane.came().filter((it) => it === 'POST /api/v1/applications/a/deploy').length };
}

const unchanged = 'application web unchanged';
const deployed = 'Deployment 3 of web: queued';

it('what is declared and serves is not deployed again', async () => {
  expect(await applied({}, 'succeeded')).toEqual({ printed: [unchanged], made: 0 });
});

it.each(['failed', 'cancelled'])('what is declared is deployed again where its deployment has %s', async (how) => {
  const why = `web is deployed, as its newest deployment 2 is ${how}`;
  expect(await applied({}, how)).toEqual({ printed: [unchanged, why, deployed], made: 1 });
});

it.each([
  ['its newest deployment 2 is cancelled', 'cancelled', {}],
  ['its newest deployment is not of its source', 'succeeded', { is_source_deployed: false }],
  ['it has failed', 'failed', { status: 'failed' }],
  ['it has no deployment', '', { status: 'stopped', current_deployment_id: null, deployment_id: null }],
])('what would be deployed, as %s, is said before it is done', async (why, newest, changes) => {
  expect(await applied(changes, newest, { dryRun: true })).toEqual({
    printed: [unchanged, `web would be deployed, as ${why}`],
    made: 0,
  });
  lines = [];
  expect(await applied(changes, newest)).toEqual({
    printed: [unchanged, `web is deployed, as ${why}`, deployed],
    made: 1,
  });
});

it.each([
  ['', 'succeeded', {}],
  ['as it is left to another command', 'cancelled', { deploy: false }],
  ['as one is under way', 'building', {}],
])('nothing would be deployed %s', async (_, newest, more) => {
  expect(await applied({}, newest, { dryRun: true, ...more })).toEqual({ printed: [unchanged], made: 0 });
});

it('what is declared is deployed where no deployment has its source, as a request was lost', async () => {
  expect(await applied({ is_source_deployed: false }, 'succeeded')).toEqual({
    printed: [unchanged, 'web is deployed, as its newest deployment is not of its source', deployed],
    made: 1,
  });
});

it('a deployment of what is declared that is under way is followed', async () => {
  expect(await applied({}, 'deploying')).toEqual({ printed: [unchanged, 'Deployment 2 of web: deploying'], made: 0 });
});

it('what is stopped is not deployed again', async () => {
  expect(await applied({ run: 'stopped', status: 'stopped', is_source_deployed: false }, 'failed')).toEqual({
    printed: [unchanged],
    made: 0,
  });
});

describe('a file', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'setpoint-apply-'));
  });
  afterEach(() => rm(folder, { recursive: true }));
  const file = async (name: string, text: string): Promise<string> => {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), text);
    return join(folder, name);
  };

  it.each(['', '# nothing\n'])('that declares nothing is refused: %j', async (text) => {
    const client = createClient({ server: 'http://127.0.0.1:1', tenant: 'default' });
    const path = await file('app.yaml', text);
    await expect(apply(client, { file: path }, new AbortController().signal)).rejects.toThrow('declares nothing');
  });

  it('is not applied with an option of a project as one plan, without the project', async () => {
    const client = createClient({ server: 'http://127.0.0.1:1', tenant: 'default' });
    const options = { file: await file('app.yaml', 'kind: Application\n'), prune: 'shop' };
    await expect(apply(client, options, new AbortController().signal)).rejects.toThrow(
      '--prune is of a project as one plan: name the project by --project',
    );
  });

  it('of which a part waits for something to be gone is not done, unless that is only planned', async () => {
    const step = { kind: 'database', key: 'databases.db', name: 'db', fields: [], interrupts: null, loses_data: null };
    const steps = [{ ...step, action: 'replace', waits_for: 'The present one to be gone: apply again then' }];
    await using plane = await Answering.start({
      'GET /api/v1/projects': () => [{ id: 'p', name: 'shop' }],
      'POST /api/v1/apply': () => ({ changes: true, steps, needs_force: [] }),
    });
    const client = createClient({ server: plane.url, tenant: 'default' });
    const options = { file: await file('db.yaml', 'kind: Database\n'), project: 'shop' };
    await expect(declare(client, options)).rejects.toThrow('Not all is done: apply the same again');
    expect(lines).toContain('db waits for: The present one to be gone: apply again then');
    await declare(client, { ...options, dryRun: true });
  });

  it('of a folder is read as by a sync: at any depth, without hidden ones; faults name it, and its line', async () => {
    await using plane = await Answering.start({
      'GET /api/v1/projects': () => [{ id: 'p', name: 'shop' }],
      'POST /api/v1/apply': (_, response) => {
        const [first, second] = [6, 8].map((line) => `Line ${line}, column 3: must be a map`);
        const error = { code: 'BAD_REQUEST', message: first, details: [{ field: 'spec', message: second }] };
        response.writeHead(400, { 'content-type': 'application/json' });
        response.end(JSON.stringify({ success: false, error }));
      },
    });
    const client = createClient({ server: plane.url, tenant: 'default' });
    const first = await file('a/b.yaml', 'one\ntwo\n'); // of three lines, and one between
    const second = await file('c.json', 'six\nseven\neight\n');
    const third = await file('d.YML', 'nine');
    await file('.x.yaml', 'hidden');
    await file('.git/y.yaml', 'hidden');
    await file('readme.md', 'of no kind');
    const { message } = (await declare(client, { file: folder, project: 'shop' }).catch((error: Error) => error)) ?? {};
    expect(plane.requests.at(-1)?.body).toMatchObject({
      content: ['one\ntwo\n', 'six\nseven\neight\n', 'nine'].join('\n---\n'),
    });
    expect(message).toBe(
      `${second}, line 2, column 3: must be a map\n  spec: ${second}, line 4, column 3: must be a map`,
    );
    expect([first, third].some((one) => message?.includes(one))).toBe(false);
  });
});
