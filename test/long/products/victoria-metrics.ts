import { expect } from 'vitest';
import { basic, type Product, type Site } from './product.ts';

const login = (site: Site) => ({ headers: basic('metrics', site.env['VM_httpAuth_password']) });

/** Its measurements are in a volume. The upgrade keeps them for longer, by a variable. */
export const victoriaMetrics: Product = {
  name: 'victoria-metrics',
  image: {
    suite: 'trixie',
    packages: ['victoria-metrics'],
    lines: [
      'RUN mkdir -p /victoria-metrics-data',
      'VOLUME /victoria-metrics-data',
      'EXPOSE 8428',
      'ENTRYPOINT ["victoria-metrics"]',
    ],
  },
  variables: () => ({}),
  secrets: ['VM_httpAuth_password'],
  upgrade: { variables: { RETENTION: '2y' }, fields: ['env.VM_retentionPeriod'] },
  async setUp(site) {
    const body = `kept{by="test"} 42 ${Date.now()}\n`;
    const taken = await site.ask('/api/v1/import/prometheus', { ...login(site), method: 'POST', body });
    expect(taken.status, taken.body).toBe(204);
  },
  async look(site, isUpgraded, soon) {
    expect((await site.ask('/')).status).toBe(401);
    expect((await site.ask('/', login(site))).body).toContain('<h2>Single-node VictoriaMetrics</h2>');
    const { body: flags } = await site.ask('/flags', login(site));
    expect(flags).toContain(`-retentionPeriod="${isUpgraded ? '2y' : '1'}"`);
    expect(flags).not.toContain(site.env['VM_httpAuth_password']);
    // what it has just taken it shows after a moment
    const body = await soon('its measurement is there', async () => {
      const answer = await site.ask('/api/v1/export?match[]=kept', login(site));
      expect(answer.status, answer.body).toBe(200);
      return answer.body !== '' && answer.body;
    });
    expect(JSON.parse(body)).toMatchObject({ metric: { __name__: 'kept', by: 'test' }, values: [42] });
  },
};
