import { expect, test } from 'vitest';
import { createStreamTickets } from '../../api/auth/stream-tickets.ts';
import type { Principal } from '../../api/auth/principal.ts';
import { systemRandom } from '../../api/ground/random.ts';
import { createTerminalSessions } from '../../api/rights/terminal-sessions.ts';
import { keys } from '../../store/keys.ts';
import { createTenant, requestTenantDeletion } from '../../store/tenants.ts';
import { overriding } from '../controllers/limits/scenes.ts';
import { startApi } from '../harness/api.ts';

test('a request that was let in before its tenant was deleted leaves no ticket and no terminal there', async () => {
  await using world = await startApi();
  const { store, mirror, clock } = world;
  await world.owner();
  await world.settled();
  const view = mirror.tenant('default');
  const [user] = view.list('user');
  const [session] = view.list('session');
  if (user === undefined || session === undefined) throw new Error('The first user has a session');
  const caller: Principal = { user, by: { type: 'session', session } };
  const record = mirror.key(keys.tenant('default'));
  // it has not seen the deletion yet
  const late = overriding(mirror, { key: (key) => (key === keys.tenant('default') ? record : mirror.key(key)) });
  const deps = { store, mirror: late, clock, random: systemRandom };
  const tickets = createStreamTickets(deps);
  const terminals = createTerminalSessions(deps);
  const attempts = [
    () => tickets.make('default', caller, '/ws/watch'),
    () => terminals.make('default', caller, { in: 'server', server_id: 'one', cols: 80, rows: 24 }),
  ];
  for (const attempt of attempts) await attempt();

  await createTenant(store, 'other', clock);
  expect(await requestTenantDeletion(store, 'default', clock)).toBe('requested');
  const { entries } = await store.list(keys.ofTenant('default'));
  await store.txn({
    if: [],
    then: [...entries.map(({ key }) => ({ delete: key })), { delete: keys.tenant('default') }],
  });
  for (const attempt of attempts) await expect(attempt()).rejects.toMatchObject({ code: 'NOT_FOUND' });
  expect((await store.list(keys.ofTenant('default'))).entries).toEqual([]);
});
