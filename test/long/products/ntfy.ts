import { expect } from 'vitest';
import { basic, type Product } from './product.ts';

const keeper = basic('keeper', 'correct horse battery');

/** Users and messages are in two volumes. The upgrade moves it to another domain, by a variable. */
export const ntfy: Product = {
  name: 'ntfy',
  image: {
    suite: 'sid',
    packages: ['ntfy'],
    lines: ['EXPOSE 80/tcp', 'ENTRYPOINT ["ntfy"]'],
  },
  variables: () => ({ DOMAIN: 'ntfy.example.test' }),
  secrets: [],
  upgrade: { variables: { DOMAIN: 'calls.example.test' }, fields: ['domains', 'env.NTFY_BASE_URL'] },
  async setUp(site) {
    const refused = await site.ask('/doors', { method: 'POST', body: 'open' });
    expect(JSON.parse(refused.body)).toMatchObject({ code: 40301, http: 403, error: 'forbidden' });
    await site.inside('sh', '-c', 'NTFY_PASSWORD="correct horse battery" ntfy user add --role=admin keeper');
    const said = await site.ask('/doors', { method: 'POST', body: 'kept', headers: { ...keeper, title: 'One' } });
    expect(said.status, said.body).toBe(200);
  },
  async look(site, isUpgraded, soon) {
    expect(site.host).toBe(isUpgraded ? 'calls.example.test' : 'ntfy.example.test');
    expect(JSON.parse((await site.ask('/v1/health')).body)).toEqual({ healthy: true });
    expect((await site.ask('/doors/json?poll=1')).status).toBe(403);
    // it stores messages once a moment
    const message = await soon('its message is there', async () => {
      const { body } = await site.ask('/doors/json?poll=1', { headers: keeper });
      return body.trim() !== '' && body;
    });
    expect(JSON.parse(message)).toMatchObject({ event: 'message', topic: 'doors', title: 'One', message: 'kept' });
  },
};
