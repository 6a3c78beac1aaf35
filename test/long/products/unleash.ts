import { expect } from 'vitest';
import { z } from 'zod';
import { nodeImage } from './node-image.ts';
import { browser, edited, type Product } from './product.ts';

const Features = z.object({ features: z.array(z.object({ name: z.string() })) });

/** All that it keeps is in PostgreSQL. The upgrade moves it below a path, and its health check with it. */
export const unleash: Product = {
  name: 'unleash',
  image: nodeImage('/unleash', ['unleash-server@7.4.1'], {
    lines: [
      'ENV TZ=UTC',
      'EXPOSE 4242',
      'USER node',
      'WORKDIR /unleash/node_modules/unleash-server',
      'CMD ["node", "dist/server.js"]',
    ],
  }),
  variables: () => ({ DOMAIN: 'flags.example.test' }),
  secrets: ['UNLEASH_DEFAULT_ADMIN_PASSWORD', 'UNLEASH_SECRET', 'INIT_CLIENT_API_TOKENS'],
  upgrade: {
    text: (text) =>
      edited(text, ['path: /health', 'path: /flags/health'], ['    env:\n', '    env:\n      BASE_URI_PATH: /flags\n']),
    fields: ['env.BASE_URI_PATH', 'healthcheck'],
  },
  async setUp(site) {
    const ask = browser(site);
    const login = (password: string | undefined) =>
      ask('/auth/simple/login', { method: 'POST', json: { username: 'admin', password } });
    // the one that everybody knows
    expect((await login('unleash4all')).status).toBe(401);
    const entered = await login(site.env['UNLEASH_DEFAULT_ADMIN_PASSWORD']);
    expect(entered.status, entered.body).toBe(200);
    const json = { name: 'kept', type: 'release' };
    const made = await ask('/api/admin/projects/default/features', { method: 'POST', json });
    expect(made.status, made.body).toBe(201);
  },
  async look(site, isUpgraded, soon) {
    const base = isUpgraded ? '/flags' : '';
    expect((await site.ask(`${base}/`)).body).toMatch(/<title>Unleash<\/title>/);
    expect(JSON.parse((await site.ask(`${base}/health`)).body)).toEqual({ health: 'GOOD' });
    const headers = { authorization: site.env['INIT_CLIENT_API_TOKENS'] ?? '' };
    // it answers applications by what it reads of its database once a second
    await soon('its switch is there', async () => {
      const { status, body } = await site.ask(`${base}/api/client/features`, { headers });
      expect(status, body).toBe(200);
      return Features.parse(JSON.parse(body)).features.some(({ name }) => name === 'kept');
    });
    expect((await site.ask(`${base}/api/client/features`)).status).toBe(401);
  },
};
