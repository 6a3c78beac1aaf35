import { expect } from 'vitest';
import { z } from 'zod';
import type { Answer } from '../../harness/through-proxy.ts';
import { nodeImage } from './node-image.ts';
import type { Asking, Product, Site } from './product.ts';

const entrypoint = `#!/bin/sh
set -e
exec node bin/redis-commander.js --redis-host "$REDIS_HOST" --redis-port "$REDIS_PORT" --redis-password "$REDIS_PASSWORD"
`;

const Entered = z.object({ ok: z.boolean(), bearerToken: z.string().optional() });
const Connections = z.object({ connections: z.array(z.object({ conId: z.string() })) });

async function enter(site: Site, username: string): Promise<z.infer<typeof Entered>> {
  const json = { username, password: site.env['HTTP_PASSWORD'] };
  return Entered.parse(JSON.parse((await site.ask('/signin', { method: 'POST', json })).body));
}

/** Asks for a key of its database, or writes it. */
async function kept(site: Site, username: string, asking: Asking = {}): Promise<Answer> {
  const { bearerToken } = await enter(site, username);
  const headers = { authorization: `Bearer ${bearerToken}` };
  const { connections } = Connections.parse(JSON.parse((await site.ask('/connections', { headers })).body));
  expect(connections).toHaveLength(1);
  return site.ask(`/apiv2/key/${connections[0]?.conId}/kept`, { ...asking, headers });
}

/** What it shows is in a Redis of its own. The upgrade gives its pages another user, by a variable. */
export const redisCommander: Product = {
  name: 'redis-commander',
  image: nodeImage('/redis-commander', ['redis-commander@0.9.0'], {
    files: { 'commander-entrypoint': entrypoint },
    lines: [
      'COPY commander-entrypoint /usr/local/bin/',
      'EXPOSE 8081',
      'WORKDIR /redis-commander/node_modules/redis-commander',
      'RUN chown -R node config',
      'USER node',
      'CMD ["commander-entrypoint"]',
    ],
  }),
  variables: () => ({}),
  secrets: ['HTTP_PASSWORD'],
  upgrade: { variables: { UI_USERNAME: 'keeper' }, fields: ['env.HTTP_USER'] },
  async setUp(site) {
    const form = { keyType: 'string', stringValue: 'by a page' };
    const made = await kept(site, 'admin', { method: 'POST', form });
    expect(made.status, made.body).toBe(200);
  },
  async look(site, isUpgraded) {
    expect((await site.ask('/')).body).toContain('<title>Redis Commander: Home</title>');
    expect((await site.ask('/connections')).status).toBe(401);
    expect(await enter(site, isUpgraded ? 'admin' : 'keeper')).toEqual({ ok: false });
    const { body } = await kept(site, isUpgraded ? 'keeper' : 'admin');
    expect(JSON.parse(body)).toMatchObject({ key: 'kept', type: 'string', value: 'by a page' });
  },
};
