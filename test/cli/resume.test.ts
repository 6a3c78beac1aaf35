import { expect, it } from 'vitest';
import { Town } from '../harness/command-line.ts';
import { until } from '../harness/until.ts';

const manifest = JSON.stringify({
  apiVersion: 'setpoint/v1',
  kind: 'Application',
  metadata: { name: 'web' },
  spec: { project: 'shop', server: 'one', source_type: 'image', image_url: 'ghcr.io/web:1' },
});

it('what follows output or changes goes on where it was cut when the control plane comes back', async () => {
  await using town = await Town.start();
  expect((await town.login()).code).toBe(0);
  expect((await town.cli.run(['apply', '-f', '-', '--no-wait'], manifest)).code).toBe(0);
  const logs = town.cli.start(['logs', 'web', '--follow']);
  const watch = town.cli.start(['get', 'applications', '--watch']);
  await logs.prints('Listening');
  await watch.prints(/web +shop /);

  await town.server.restart();
  await town.server.ready(town.url);
  await until('the server is connected again', async () => {
    const [server] = await town.client.list('/api/v1/servers');
    return server?.['agent_status'] === 'connected';
  });
  expect((await town.cli.run(['stop', 'web'])).code).toBe(0);
  await watch.prints(/web +shop +production +stopped +0\/1 /); // it is back, however late
  expect((await town.cli.run(['start', 'web', '--no-wait'])).code).toBe(0);

  await logs.prints(/Listening\n[^]*Listening\n/);
  await watch.prints(/web +shop +production +stopped +0\/1 [^]*web +shop +production +deploying /);
  const end = await logs.interrupt();
  expect(end.code).toBe(0);
  expect(end.err).toMatch(/^… .*: connecting again\n/);
  expect(end.out.match(/Listening/g)).toHaveLength(2);
  expect(await watch.interrupt()).toMatchObject({ code: 0, err: expect.stringContaining('connecting again') });
}, 180_000);
