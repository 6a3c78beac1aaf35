import { createHash } from 'node:crypto';
import { expect } from 'vitest';
import type { Product } from './product.ts';

const digestOf = (text: string): string => `sha256:${createHash('sha256').update(text).digest('hex')}`;
const manifestType = 'application/vnd.oci.image.manifest.v1+json';
const config = '{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}';
const manifest = JSON.stringify({
  schemaVersion: 2,
  mediaType: manifestType,
  config: { mediaType: 'application/vnd.oci.image.config.v1+json', digest: digestOf(config), size: config.length },
  layers: [],
});

const settings = `version: 0.1
log: {fields: {service: registry}}
storage:
  cache: {blobdescriptor: inmemory}
  filesystem: {rootdirectory: /var/lib/registry}
http:
  addr: :5000
  headers: {X-Content-Type-Options: [nosniff]}
health:
  storagedriver: {enabled: true, interval: 10s, threshold: 3}
`;

/** Its images are in a volume. The upgrade lets them be deleted, by a variable. */
export const registry: Product = {
  name: 'registry',
  image: {
    suite: 'trixie',
    packages: ['docker-registry'],
    files: { 'config.yml': settings },
    lines: [
      'RUN ln -s docker-registry /usr/bin/registry',
      'COPY config.yml /etc/docker/registry/config.yml',
      'VOLUME /var/lib/registry',
      'EXPOSE 5000',
      'ENTRYPOINT ["registry", "serve"]',
      'CMD ["/etc/docker/registry/config.yml"]',
    ],
  },
  variables: () => ({ DOMAIN: 'images.example.test' }),
  secrets: ['REGISTRY_HTTP_SECRET', 'WEB_PASSWORD'],
  upgrade: { variables: { DELETE_ENABLED: 'true' }, fields: ['env.REGISTRY_STORAGE_DELETE_ENABLED'] },
  async setUp(site) {
    const begun = await site.ask('/v2/kept/blobs/uploads/', { method: 'POST' });
    expect(begun.status, begun.body).toBe(202);
    const at = new URL(begun.headers.location ?? '');
    expect(at.origin).toBe(`https://${site.host}`);
    at.searchParams.set('digest', digestOf(config));
    const headers = { 'content-type': 'application/octet-stream' };
    const sent = await site.ask(`${at.pathname}${at.search}`, { method: 'PUT', body: config, headers });
    expect(sent.status, sent.body).toBe(201);
    const asking = { method: 'PUT', body: manifest, headers: { 'content-type': manifestType } };
    const made = await site.ask('/v2/kept/manifests/one', asking);
    expect(made.status, made.body).toBe(201);
  },
  async look(site, isUpgraded) {
    const { status, headers } = await site.ask('/v2/');
    expect([status, headers['docker-distribution-api-version']]).toEqual([200, 'registry/2.0']);
    expect(JSON.parse((await site.ask('/v2/kept/tags/list')).body)).toEqual({ name: 'kept', tags: ['one'] });
    const kept = await site.ask('/v2/kept/manifests/one', { headers: { accept: manifestType } });
    expect([kept.body, kept.headers['docker-content-digest']]).toEqual([manifest, digestOf(manifest)]);
    expect((await site.ask(`/v2/kept/blobs/${digestOf(config)}`)).body).toBe(config);
    const gone = await site.ask(`/v2/kept/manifests/${digestOf('nothing')}`, { method: 'DELETE' });
    expect(gone.status, gone.body).toBe(isUpgraded ? 404 : 405);
  },
};
