import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { createClient } from '../../cli/client.ts';
import { explain } from '../../cli/verbs/explain.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';

let world: ApiWorld;

beforeAll(async () => {
  world = await startApi();
});
afterAll(() => world[Symbol.asyncDispose]());

async function printed(path?: string): Promise<string> {
  const log = vi.spyOn(console, 'log').mockImplementation(() => undefined);
  try {
    await explain(createClient({ server: world.url, tenant: 'default' }), path, new AbortController().signal);
    return log.mock.calls.flat().join('\n');
  } finally {
    log.mockRestore();
  }
}

it('names the kinds, the fields of one, and what a field takes', async () => {
  expect(await printed()).toMatch(/^Environment\nVolume\nDatabase\nApplication\nFunction\nTemplateInstance\n/);
  const database = await printed('database');
  expect(database).toMatch(/^Database\.spec: object\n/);
  expect(database).toContain('  type (required): one of postgres, mysql, mariadb, redis, mongodb\n');
  expect(database).toContain('  password: text of at most 128 characters\n      By default a generated one\n');
  expect(await printed('Database.exposed_port')).toBe('Database.spec.exposed_port: whole number from 1 to 65535');
  expect(await printed('database.metadata')).toContain('\n  labels: map of text');
  expect(await printed('application.domains')).toMatch(/^Application\.spec\.domains: list of object\n/);
  expect(await printed('application.domains')).toContain('  tls: one of on, auto, off, internal\n');
  expect(await printed('application.volumes')).toMatch(/\n {2}volume \(required\): /);
  for (const line of (await printed('database.parameters')).split('\n')) expect(line.length).toBeLessThanOrEqual(100);
});

it('has schemas whose references lead to what is in the same document', async () => {
  for (const file of ['setpoint', 'application', 'function']) {
    const text = await (await fetch(`${world.url}/schemas/${file}.json`)).text();
    const { $defs = {} } = JSON.parse(text) as { $defs?: object };
    const named = [...text.matchAll(/"\$ref":"#\/\$defs\/([^"]+)"/g)].map(([, name]) => name);
    expect(named.filter((name) => !Object.hasOwn($defs, name ?? ''))).toEqual([]);
  }
});

it('says what is there in place of what is not', async () => {
  await expect(printed('databse')).rejects.toThrow('There is no kind databse: name one of Environment, Volume,');
  await expect(printed('database.typ')).rejects.toThrow(/^Database\.spec has no field typ: it has .*type, version/);
  await expect(printed('database.type.more')).rejects.toThrow(
    'Database.spec.type has no fields: it is one of postgres',
  );
});
