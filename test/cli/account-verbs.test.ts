import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { printed } from '../../cli/printed.ts';
import { Town } from '../harness/command-line.ts';
import type { Printed } from '../harness/command-line.ts';
import { longTag } from '../layer-report.ts';

let town: Town;
const run = (...argv: string[]): Promise<Printed> => town.cli.run(argv);

beforeAll(async () => {
  town = await Town.start();
  expect((await town.login()).code).toBe(0);
  expect((await run('settings', 'set', 'registries=registry.test')).code).toBe(0);
  const manifest = [
    'apiVersion: setpoint/v1',
    'kind: Application',
    'metadata: { name: web }',
    'spec: { project: shop, server: one, source_type: image, image_url: "registry.test/web:missing" }',
  ].join('\n');
  expect(await run('apply', '--no-wait', '-f', await town.cli.file('web.yaml', manifest))).toMatchObject({
    code: 0,
    err: '',
  });
});
afterAll(() => town[Symbol.asyncDispose]());

describe('variables', () => {
  it('are set, read and removed, with whatever is in them', async () => {
    const set = ['env', 'set', '--no-wait', 'web', 'A=b=c', 'EMPTY=', '--secret', 'LONG'];
    expect((await town.cli.run(set, 'two words\n')).out).toMatch(/^3 variable\(s\) of web set\n/);
    expect((await run('env', 'get', 'web')).out).toBe('A=b=c\nEMPTY=\nLONG=two words\n');
    expect((await run('env', 'get', 'web', 'A')).out).toBe('A=b=c\n');
    expect(JSON.parse((await run('env', 'get', 'web', '--output', 'json')).out)).toMatchObject({ A: 'b=c' });
    expect((await run('env', 'unset', '--no-wait', 'web', 'A', 'EMPTY')).code).toBe(0);
    expect((await run('env', 'get', 'web')).out).toBe('LONG=two words\n');
    expect((await run('env', 'get', 'web', 'A')).err).toBe('There is no variable A: `setpoint env get` lists them\n');
    expect((await run('env', 'set', 'web', 'A')).err).toBe('A variable is set by NAME=VALUE: got A\n');
    expect((await run('env', 'set', 'web', 'A B=x')).err).toContain('["A B"] must be a name of 1 to 256');
  });
});

describe('what programs read', () => {
  it('is JSON or YAML, of one object with its parts, or of a list', { tags: [longTag] }, async () => {
    const one = JSON.parse((await run('describe', 'application', 'web', '--output', 'json')).out);
    expect(one).toMatchObject({ name: 'web', instances: expect.any(Array), events: expect.any(Array) });
    expect(parse((await run('get', 'applications', '--output', 'yaml')).out)).toMatchObject([{ name: 'web' }]);
    expect(parse((await run('describe', 'project', 'shop', '-o', 'yaml')).out)).toMatchObject({ name: 'shop' });
    const value = { text: 'a\u009b\u202e\u001bb' };
    for (const form of ['json', 'yaml']) {
      expect((await printed(value, form)).replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}]/u);
      expect(parse(await printed(value, form))).toEqual(value);
    }
  });
});

describe('other verbs', () => {
  it(
    'print events, cancel nothing that has ended, and name what goes only with another object',
    { tags: [longTag] },
    async () => {
      expect((await run('events', 'server', 'one')).out).toMatch(/^LAST +TYPE +REASON +COUNT +MESSAGE\n/);
      expect((await run('events', 'project', 'shop')).err).toContain(
        'There are no events of a project: name one of servers, applications, deployments, databases, functions, runs, volumes',
      );
      expect((await run('delete', 'deployment', 'web', '--yes')).err).toContain(
        'Cannot delete a deployment by itself: it goes with its application',
      );
      await run('deploy', 'web');
      expect((await run('cancel', 'web')).err).toMatch(/^Cannot cancel as the deployment (has failed|is superseded): /);
    },
  );

  it('list and change who is in a project', async () => {
    expect((await run('members', 'list', 'shop')).out).toMatch(
      /^ACCOUNT +ROLE +STATUS +AGE\nowner@example\.test +owner +active/,
    );
    expect((await run('members', 'invite', 'shop', 'new@example.test', 'viewer')).code).toBe(0);
    expect((await run('members', 'list', 'shop')).out).toMatch(/new@example\.test +viewer +pending/);
    expect((await run('members', 'invite', 'shop', 'x@example.test', 'king')).err).toContain('admin, member or viewer');
    expect((await run('members', 'remove', 'shop', 'none@example.test')).err).toContain('is not in the project');
    expect((await run('members', 'promote', 'shop', 'x')).err).toContain('Cannot promote members');
  });

  it('create a service key that a script can take', async () => {
    const { out, code } = await run(
      'keys',
      'create',
      'ci',
      '--scope',
      'read',
      'deploy',
      '--project',
      'shop',
      '--expires',
      '2099-01-01T00:00:00Z',
    );
    expect(code).toBe(0);
    expect(out).toMatch(/^sp_[A-Za-z0-9]{46}\n$/);
    const narrow = await town.cli.run(['get', 'projects', '--token', out.trim()]);
    expect(narrow.out).toContain('shop');
    expect((await run('keys', 'create', 'x', '--expires', 'soon')).err).toBe(
      'expires_at must be a time such as 2030-01-31T12:00:00Z\n',
    );
  });
});

describe('texts of others', () => {
  it('are shown without what a terminal would obey', async () => {
    const hostile = 'a\u001b]52;c;ZXZpbA==\u0007\u001b[2J\u202egnp';
    for (const description of [hostile, 'x\u0000', 'x\u200b'])
      await expect(town.client.request('PUT', `/api/v1/projects/${town.project.id}`, { description })).rejects.toThrow(
        'description must not contain control characters',
      );
    await town.client.request('PUT', `/api/v1/projects/${town.project.id}`, { description: 'two\nlines' });
    expect((await run('describe', 'project', 'shop')).out).toMatch(/^description +two lines$/m);
  });
});
