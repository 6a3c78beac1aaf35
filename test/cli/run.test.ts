import { expect, it, vi } from 'vitest';
import { createClient } from '../../cli/client.ts';
import { run } from '../../cli/verbs/run.ts';
import { Answering } from '../harness/answering.ts';

const app = { id: 'a', name: 'web' };
const made = { id: 'r', status: 'pending' };
const routes = {
  'GET /api/v1/applications': () => [app],
  'POST /api/v1/applications/a/run': () => made,
  'POST /api/v1/runs/r/cancel': () => made,
};
const cancel = 'POST /api/v1/runs/r/cancel';

it('a command that is interrupted while it runs is cancelled at the control plane', async () => {
  const stop = new AbortController();
  await using plane = await Answering.start(routes, () => stop.abort(new Error('Stopped by SIGINT')));
  const client = createClient({ server: plane.url, tenant: 'default' }, stop.signal);
  await expect(run(client, 'web', ['sleep', '600'], {}, stop.signal)).rejects.toThrow(
    'The command is cancelled: its process is being ended',
  );
  expect(plane.came().at(-1)).toBe(cancel);
});

it('a command that is interrupted while it is requested is cancelled, too', async () => {
  const stop = new AbortController();
  const interrupted = {
    ...routes,
    'POST /api/v1/applications/a/run': () => {
      stop.abort(new Error('Stopped by SIGINT'));
      return made;
    },
  };
  await using plane = await Answering.start(interrupted, () => undefined);
  const client = createClient({ server: plane.url, tenant: 'default' }, stop.signal);
  await expect(run(client, 'web', ['sleep', '600'], {}, stop.signal)).rejects.toThrow('The command is cancelled');
  expect(plane.came().at(-1)).toBe(cancel);
});

it('a command that cannot be cancelled is said to go on, with its id', async () => {
  using printed = vi.spyOn(console, 'error').mockImplementation(() => undefined);
  const stop = new AbortController();
  const { [cancel]: _none, ...others } = routes;
  await using plane = await Answering.start(others, () => stop.abort(new Error('Stopped by SIGINT')));
  const client = createClient({ server: plane.url, tenant: 'default' }, stop.signal);
  await expect(run(client, 'web', ['sleep', '600'], {}, stop.signal)).rejects.toThrow(
    /^Run r goes on, as it could not be cancelled: Nothing answers .*: `setpoint describe run r` shows how it ends$/,
  );
  expect(printed).not.toHaveBeenCalled();
});
