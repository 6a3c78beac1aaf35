import { expect } from 'vitest';
import type { PackageImage } from '../../harness/package-image.ts';
import { nodeImage } from './node-image.ts';
import type { Product } from './product.ts';

const imageOf = (release: string): PackageImage =>
  nodeImage('/usr/src/node-red', [`node-red@${release}`], {
    lines: [
      'RUN install -d -o node -g node -m 1777 /data',
      'VOLUME /data',
      'EXPOSE 1880',
      'USER node',
      'CMD ["node", "node_modules/node-red/red.js", "--userDir", "/data", "flows.json"]',
    ],
  });

/** A flow that answers at `/kept`. */
const flow = [
  { id: 'tab', type: 'tab', label: 'Kept' },
  { id: 'in', z: 'tab', type: 'http in', url: '/kept', method: 'get', wires: [['text']] },
  {
    id: 'text',
    z: 'tab',
    type: 'template',
    field: 'payload',
    fieldType: 'msg',
    syntax: 'plain',
    template: 'by a flow',
    output: 'str',
    wires: [['out']],
  },
  { id: 'out', z: 'tab', type: 'http response', statusCode: '', headers: {}, wires: [] },
];

/** Its flows are in a volume. The upgrade is one of the product itself. */
export const nodeRed: Product = {
  name: 'node-red',
  image: imageOf('5.0.4'),
  variables: () => ({ DOMAIN: 'flows.example.test' }),
  secrets: ['WEB_PASSWORD'],
  upgrade: { image: imageOf('5.0.7'), fields: ['image_url'] },
  async setUp(site) {
    const made = await site.ask('/flows', { method: 'POST', json: flow });
    expect(made.status, made.body).toBe(204);
  },
  async look(site, isUpgraded, soon) {
    expect((await site.ask('/')).body).toContain('<title>Node-RED</title>');
    const settings: unknown = JSON.parse((await site.ask('/settings')).body);
    expect(settings).toMatchObject({ version: isUpgraded ? '5.0.7' : '5.0.4' });
    // flows start after the pages
    await soon('its flow answers', async () => (await site.ask('/kept')).body === 'by a flow');
  },
};
