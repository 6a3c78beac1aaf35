import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readTemplate } from '../../api/templates/read.ts';
import { application, template } from './text.ts';

const errorsOf = (text: string) =>
  readTemplate(text).findings.errors.map(({ line, column, message }) => `${line}:${column} ${message}`);
const example = readFileSync(join(import.meta.dirname, '../../manifests/examples/template/template.yaml'), 'utf8');

it('reads the example, and orders what it declares by its references', () => {
  const { metadata, variables, resources, findings } = readTemplate(example);
  expect(findings.errors).toEqual([]);
  expect(findings.warnings).toEqual([]);
  expect(metadata.name).toBe('notes');
  expect(variables.map(({ name }) => name)).toEqual(['DOMAIN', 'API_TOKEN', 'GREETING_TEXT', 'WORKERS']);
  expect(resources.map(({ section, name, wave }) => [section, name, wave])).toEqual([
    ['volumes', 'uploads', 0],
    ['databases', 'db', 1],
    ['applications', 'web', 2],
    ['applications', 'worker', 3],
  ]);
});

it('names waves without gaps', () => {
  const text = application(['depends_on: [api]'], '  - name: api', '    image_url: api:1');
  expect(readTemplate(text).resources.map(({ name, wave }) => [name, wave])).toEqual([
    ['api', 0],
    ['web', 1],
  ]);
});

describe('what is wrong is named by path, line and column:', () => {
  it.each([
    ['an empty text', '', '1:1 The template must not be empty'],
    ['a list', '[]', '1:1 The template must be a map'],
    ['another kind', 'apiVersion: setpoint/v1\nkind: Application\n', '2:7 kind must have kind: Template'],
    ['nothing', template(), 'must declare something'],
    ['an unknown key', template('volume: []', 'volumes: [{name: a}]'), '3:1 volume is not known'],
    ['a name with capitals', template('volumes:', '  - name: Data'), '4:11 volumes.0.name must be 1 to 40'],
    [
      'a name twice',
      template('volumes:', '  - name: a', '  - name: a'),
      '5:11 volumes.1.name is the name of another one',
    ],
    ['an unknown field', application(['colour: red']), '6:13 applications.0.colour is not known'],
    ['a wrong port', application(['exposed_port: 70000']), '6:19 applications.0.exposed_port must be'],
    [
      'a missing image',
      template('applications:', '  - name: web', '    image_url: "no image"'),
      'applications.0.image_url',
    ],
    ['a compose source', application(['source_type: compose']), 'must be git or image'],
    [
      'an undeclared variable',
      application(['env:', '  A: ${B}']),
      '7:10 applications.0.env.A uses the variable B, which',
    ],
    [
      'an unknown reference',
      application(['env:', '  A: ${databases.db.host}']),
      'refers to databases.db, which the template',
    ],
    [
      'a password in a command',
      application(['start_command: run ${databases.db.password}'], 'databases: [{name: db, type: postgres}]'),
      'which only variables may have',
    ],
    ['a reference to itself', application(['start_command: run ${applications.web.url}']), 'refers to what it is in'],
    [
      'more text than may be, with variables',
      application([`env: {A: "${'${B}'.repeat(50_000)}"}`], `variables: [{name: B, default: ${'b'.repeat(8000)}}]`),
      'The template is longer than 1024 KiB in all',
    ],
    ['an unknown volume', application(['volumes: [{volume: a, path: /a}]']), 'names the volume a, which'],
    ['an unknown dependency', application(['depends_on: [a]']), 'names the application a, which'],
    [
      'a wrong default',
      application(['env: {A: "${B}"}'], 'variables: [{name: B, type: port, default: x}]'),
      'variables.0.name has a default that must be a port',
    ],
    [
      'an unknown type',
      template('variables: [{name: B, type: colour}]', 'volumes: [{name: a}]'),
      'variables.0.type must be',
    ],
    [
      'a default that does not fit',
      application(['exposed_port: ${P}'], 'variables: [{name: P, default: x}]'),
      'applications.0.exposed_port must be',
    ],
  ])('%s', (_, text, message) => {
    expect(errorsOf(text).join('\n')).toContain(message);
  });

  it('a circle, by its whole way', () => {
    const text = application(
      ['env:', '  A: ${applications.api.host}'],
      '  - name: api',
      '    image_url: api:1',
      '    depends_on: [web]',
    );
    expect(errorsOf(text).join('\n')).toContain(
      'in a circle of references: applications.web → applications.api → applications.web',
    );
  });

  it('a volume that two applications would mount', () => {
    const text = application(
      ['volumes: [{volume: a, path: /a}]'],
      '  - name: api',
      '    image_url: api:1',
      '    volumes: [{volume: a, path: /a}]',
      'volumes: [{name: a}]',
    );
    expect(errorsOf(text).join('\n')).toContain('which applications.web mounts');
  });
});

it('takes a value that only the one who instantiates it knows as it will be', () => {
  const text = application(
    ['exposed_port: ${PORT}', 'replicas: ${COUNT}', 'memory_limit: ${SIZE}', 'env: {PORT: "${PORT}"}'],
    'variables:',
    '  - {name: PORT, type: port}',
    '  - {name: COUNT}',
    '  - {name: SIZE, type: size}',
  );
  expect(errorsOf(text)).toEqual([]);
});

it('warns of a variable that nothing uses', () => {
  const { warnings } = readTemplate(application([], 'variables: [{name: A}]')).findings;
  expect(warnings.map(({ message }) => message)).toEqual(['variables declares A, which nothing uses']);
});

it('takes functions, whose fields are judged', () => {
  const functions = (more: string) =>
    template('functions:', '  - name: f', '    runtime: node20', '    code: x', ...(more === '' ? [] : [more]));
  expect(errorsOf(functions(''))).toEqual([]);
  expect(errorsOf(functions('    timeout_seconds: 901')).join('\n')).toContain('functions.0.timeout_seconds must be');
});

const deep = (depth: number) => `a: ${'['.repeat(depth)}${']'.repeat(depth)}`;
const bomb = [
  'x-a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]',
  ...Array.from('bcdefghi', (name, index) => `x-${name}: &${name} [${`*${'abcdefghi'.charAt(index)},`.repeat(9)}]`),
].join('\n');

describe('a hostile text is refused as a whole:', () => {
  it.each([
    ['a bomb of aliases', template(bomb)],
    ['more aliases than may be', template('x-a: &a 1', `x-b: [${'*a,'.repeat(101)}]`)],
    ['depth in flow style', template(deep(5000))],
    ['depth in blocks', template(Array.from({ length: 60 }, (_, at) => `${' '.repeat(at)}a:`).join('\n'))],
    ['more values than may be', template(`x-a: [${'1,'.repeat(20_000)}]`)],
    ['more bytes than may be', template(`x-a: ${'a'.repeat(256 * 1024)}`)],
    ['two documents', `${template('volumes: [{name: a}]')}---\n${template('volumes: [{name: b}]')}`],
    ['a tag', template('x-a: !!js/function "x"')],
    ['a tag of one’s own', template('x-a: !evil {a: 1}')],
    ['a key twice', template('kind: Template', 'volumes: [{name: a}]')],
    ['__proto__', template('volumes: [{name: a, __proto__: {b: 1}}]')],
    ['a control character', template('x-a: "\u0000"')],
  ])('%s', (_, text) => {
    const { findings } = readTemplate(text);
    expect(findings.isRefused).toBe(true);
    expect(findings.errors.length).toBeLessThanOrEqual(100);
  });

  it('but not one that is only wrong', () => {
    for (const text of ['a: [', template('volumes: 1'), '']) {
      const { findings } = readTemplate(text);
      expect([findings.isRefused, findings.errors.length > 0]).toEqual([false, true]);
    }
  });
});
