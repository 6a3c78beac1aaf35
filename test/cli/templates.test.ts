import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { CommandLine } from '../harness/command-line.ts';

// each command is a process
vi.setConfig({ testTimeout: 120_000 });

const example = join(import.meta.dirname, '../../manifests/examples/template/template.yaml');
let world: ApiWorld;
let owner: Client;
let cli: CommandLine;
let place: { project: string; server: string };

beforeAll(async () => {
  world = await startApi();
  owner = await world.owner();
  cli = await CommandLine.open();
  place = await world.place(owner);
});
afterAll(async () => {
  await cli[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const run = (argv: readonly string[], input = '') =>
  cli.run(argv, input, {
    SETPOINT_URL: world.url,
    SETPOINT_TENANT: 'default',
    SETPOINT_TOKEN: owner.token ?? '',
  });

it('a template is checked, created, exported, imported and instantiated, and what was made of it is deleted', async () => {
  const checked = await run(['templates', 'check', '-f', example]);
  expect(checked).toMatchObject({ code: 0, err: '' });
  expect(checked.out).toMatch(/^API_TOKEN +secret +generated/m);
  expect(checked.out).toMatch(/^4 +application +worker$/m);
  const wrong = await run(['templates', 'check', '-f', '-'], 'kind: Template\n');
  expect(wrong).toMatchObject({
    code: 1,
    out: expect.stringContaining('-:1:1: error: The template must have apiVersion: setpoint/v1'),
  });

  expect(await run(['create', 'template', '-f', example])).toMatchObject({
    code: 0,
    out: 'template notes is created\n',
  });
  expect((await run(['templates'])).out).toMatch(/^notes +Notes +example +0 /m);
  const exported = await run(['templates', 'export', 'notes', '-o', 'json']);
  const imported = await run(['templates', 'import', '-f', '-', '--on-conflict', 'rename'], exported.out);
  expect(imported).toMatchObject({ code: 0, out: 'template notes-2 is imported\n' });

  const missing = await run(['instantiate', 'notes', '--project', place.project, '--on', place.server]);
  expect(missing).toMatchObject({ code: 1, err: expect.stringContaining('DOMAIN needs a value') });
  const at = ['--project', place.project, '--on', place.server, '--name', 'mine', '--no-wait'];
  const made = await run(['instantiate', 'notes', ...at, '--set', 'DOMAIN=notes.example.org', '--set', 'WORKERS=2']);
  expect(made).toMatchObject({ code: 0, err: '' });
  expect(made.out).toMatch(/^3 +application +mine-web +waiting /m);
  expect(made.out).toContain('template instance mine is pending');
  expect((await run(['get', 'instances'])).out).toMatch(/^mine .* notes +pending +0\/4 /m);

  const refused = await run(['delete', 'template', 'notes-2', '--yes', '--keep-data']);
  expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('--keep-data is for a template instance') });
  const deleted = await run(['delete', 'instance', 'mine', '--yes', '--keep-data', '--no-wait']);
  expect(deleted).toMatchObject({ code: 0, out: 'template-instance mine is being deleted\n' });
  const { data } = await owner.get('/template-instances');
  expect((await world.repo.get('template_instance', data[0].id))?.desired.keep_data).toBe(true);
});

it('a compose file is printed as a template, and what became of its keys beside it', async () => {
  const compose =
    'services:\n  web:\n    image: web:1\n    restart: always\n    user: "1"\n    environment: {API_KEY: sesame-open}\n';
  const converted = await run(['convert-compose', '-f', '-', '--name', 'web'], compose);
  expect(converted.code).toBe(0);
  expect(converted.out).toContain('API_KEY: ${API_KEY}');
  expect(converted.out).not.toContain('sesame');
  expect(converted.err).toContain('-:5:11: refused: services.web.user: instances run as the user of their image');
  const created = await run(['create', 'template', '-f', '-'], converted.out);
  expect(created).toMatchObject({ code: 0, out: 'template web is created\n' });
});

it('what a file declares is compared, applied as one plan and exported, and an instance is upgraded and rolled back', async () => {
  const at = ['--project', place.project];
  const text = (image: string): string =>
    `apiVersion: setpoint/v1\nkind: Application\nmetadata: {name: web}\nspec: {image_url: ${image}, server: ${place.server}}\n`;
  const compared = await run(['diff', '-f', '-', ...at], text('web:1'));
  expect(compared).toMatchObject({ code: 1, out: 'create application web\n' });
  expect((await run(['diff', '-f', '/none', ...at])).code).toBe(2);
  // a wrong use is no change, either
  expect((await run(['diff', ...at])).code).toBe(2);
  expect((await run(['diff', '--nothing-such', '-f', '-', ...at])).code).toBe(2);
  expect((await run(['diff', '--help'])).code).toBe(0);
  expect(await run(['apply', '-f', '-', ...at], text('web:1'))).toMatchObject({
    code: 0,
    out: 'create application web\n',
  });
  expect((await run(['apply', '-f', '-', ...at], text('web:2'))).out).toBe(
    'update application web\n  image_url: "web:1" -> "web:2"\n',
  );
  const exported = await run(['export', place.project]);
  expect(exported.out).toContain('image_url: web:2');
  expect((await run(['diff', '-f', '-', ...at], exported.out)).code).toBe(0);

  const content =
    'apiVersion: setpoint/v1\nkind: Template\nvariables: [{name: PORT, type: port, default: "80"}]\napplications: [{name: app, image_url: "app:1", exposed_port: "${PORT}"}]\n';
  await owner.post('/templates', { name: 'small', content });
  await run(['instantiate', 'small', ...at, '--on', place.server, '--no-wait', '--secret', 'PORT'], '80\n');
  const planned = await run(['upgrade', 'small', ...at, '--set', 'PORT=81', '--dry-run']);
  expect(planned.err).toBe('');
  expect(planned.out).toContain('exposed_port: 80 -> 81');
  const upgraded = await run(['upgrade', 'small', ...at, '--secret', 'PORT', '--no-wait'], '81\n');
  expect(upgraded).toMatchObject({ code: 0, err: '' });
  const back = await run(['rollback', 'small', '--instance', ...at, '--no-wait']);
  expect(back.out).toContain('exposed_port: 81 -> 80');
});
