import { expect } from 'vitest';
import { basic, type Product } from './product.ts';

/** All that it keeps is in PostgreSQL. The upgrade moves it to another domain, by a variable. */
export const miniflux: Product = {
  name: 'miniflux',
  image: {
    suite: 'sid',
    packages: ['miniflux', 'dbconfig-no-thanks'],
    lines: ['ENV LISTEN_ADDR=0.0.0.0:8080', 'EXPOSE 8080', 'USER 65534', 'CMD ["/usr/bin/miniflux"]'],
  },
  variables: () => ({ DOMAIN: 'feeds.example.test' }),
  secrets: ['ADMIN_PASSWORD'],
  upgrade: { variables: { DOMAIN: 'reader.example.test' }, fields: ['domains', 'env.BASE_URL'] },
  async setUp(site) {
    const headers = basic('admin', site.env['ADMIN_PASSWORD']);
    const made = await site.ask('/v1/categories', { method: 'POST', headers, json: { title: 'Kept' } });
    expect(made.status, made.body).toBe(201);
  },
  async look(site, isUpgraded) {
    expect(site.host).toBe(isUpgraded ? 'reader.example.test' : 'feeds.example.test');
    const { headers, body } = await site.ask('/');
    expect(headers['content-type']).toContain('text/html');
    expect(body).toMatch(/<title>\s*Sign In - Miniflux<\/title>/);
    expect(String(headers['set-cookie'])).toMatch(/Secure/i);
    const asked = { headers: basic('admin', site.env['ADMIN_PASSWORD']) };
    const about: unknown = JSON.parse((await site.ask('/v1/version', asked)).body);
    expect(about).toMatchObject({ version: expect.stringMatching(/^2\.3\./) });
    const categories: unknown = JSON.parse((await site.ask('/v1/categories', asked)).body);
    expect(categories).toContainEqual(expect.objectContaining({ title: 'Kept' }));
    expect((await site.ask('/v1/me', { headers: basic('admin', 'another') })).status).toBe(401);
  },
};
