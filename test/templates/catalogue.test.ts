import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { valueOf } from '../../api/templates/plain.ts';
import { readTemplate } from '../../api/templates/read.ts';

const folder = join(import.meta.dirname, '../../manifests/templates');
const names = readdirSync(folder);

it('has templates', () => {
  expect(names.length).toBeGreaterThanOrEqual(40);
});

it.each(names)('%s is valid, described, of pinned images, and says when it is ready', (name) => {
  const { metadata, variables, resources, findings } = readTemplate(
    readFileSync(join(folder, name, 'template.yaml'), 'utf8'),
  );
  expect(findings.errors).toEqual([]);
  expect(findings.warnings).toEqual([]);
  expect(metadata).toMatchObject({
    name,
    display_name: expect.any(String),
    description: expect.any(String),
    documentation: expect.stringMatching(/^https:\/\//),
    tags: [expect.any(String), ...metadata.tags!.slice(1)],
  });
  for (const { section, node } of resources) {
    if (section !== 'applications') continue;
    const { image_url, healthcheck, healthcheck_path, domains } = valueOf(node) as Record<string, unknown>;
    expect(image_url).toMatch(/:v?\d[\w.-]*$/);
    expect(healthcheck ?? healthcheck_path).toBeDefined();
    // a domain has a certificate, which is listed publicly, at once
    const lacksLogin = /no (?:login|password)/.test(metadata.description ?? '');
    for (const one of lacksLogin && Array.isArray(domains) ? domains : [])
      expect(one).toMatchObject({ basic_auth: [{ password: '${WEB_PASSWORD}' }] });
  }
  for (const it of variables)
    if (['password', 'secret'].includes(it.type)) expect([it.name, it.generate]).not.toContain(undefined);
});
