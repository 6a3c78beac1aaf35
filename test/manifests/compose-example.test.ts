import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { changesOf } from '../../cli/application-change.ts';
import { composedApplication } from '../../compose/composed-application.ts';
import { mainServiceOf } from '../../compose/main-service.ts';
import { parseCompose } from '../../compose/parse.ts';
import { parseApplications } from '../../manifests/application.ts';

const url = new URL('../../manifests/examples/compose/application.yaml', import.meta.url);

it('declares an application whose compose file is taken without a word', async () => {
  const [manifest] = parseApplications(await readFile(url, 'utf8'));
  const { compose_file: text = '', compose_service: name } = manifest!.spec;
  const { services, errors, warnings } = parseCompose({ text, variables: new Map(), inRepository: false });
  expect({ errors, warnings }).toEqual({ errors: [], warnings: [] });
  expect(mainServiceOf(services, { name })?.name).toBe('web');
});

it('changes nothing where the text is the same', async () => {
  const [manifest] = parseApplications(await readFile(url, 'utf8'));
  const { compose_file, compose_service, source_type } = manifest!.spec;
  const now = { id: 'x', name: 'notes', status: 'running', source_type, compose_service, compose_file };
  expect(changesOf(manifest!, now, undefined)).toEqual([]);
  expect(changesOf(manifest!, { ...now, compose_file: 'services: {}' }, undefined)).toMatchObject([
    { field: 'compose_file', text: expect.not.stringContaining('redis') },
  ]);
});

it('declares an application whose compose file is in its repository, which is taken without a word', async () => {
  const folder = '../../manifests/examples/compose-repository';
  const read = (name: string) => readFile(new URL(`${folder}/${name}`, import.meta.url), 'utf8');
  const [manifest] = parseApplications(await read('application.yaml'));
  const { compose_path: path = '', compose_service: service, env = {} } = manifest!.spec;
  const { services, wanted } = composedApplication({
    text: await read(path),
    variables: new Map(Object.entries(env)),
    inRepository: true,
    service,
    exposedPort: undefined,
  });
  expect(services.map(({ name, build }) => [name, build?.args])).toEqual([
    ['web', { RELEASE: '1' }],
    ['cache', undefined],
  ]);
  expect([...wanted.keys()]).toEqual(['web/web.env', 'cache/redis.conf']);
  expect(
    parseCompose({ text: await read(path), variables: new Map([['RELEASE', '1']]), inRepository: true }).warnings,
  ).toEqual([]);
});
