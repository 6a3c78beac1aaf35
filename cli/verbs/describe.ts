import { z } from 'zod';
import type { Client } from '../client.ts';
import { findObject, kindOf, pathOf } from '../objects.ts';
import { age, table } from '../table.ts';

const Events = z.array(
  z.looseObject({ type: z.string(), reason: z.string(), message: z.string(), count: z.number(), last_at: z.string() }),
);

/** Tells everything of one object: its fields, its conditions, what it waits for, its events. */
export async function describe(
  client: Client,
  word: string,
  name: string,
  options: { project?: string },
): Promise<void> {
  const kind = kindOf(word);
  const found = await findObject(client, kind, name, options.project);
  const it = await client.object('GET', pathOf(kind, found));
  const now = new Date();
  const width = Math.max(...Object.keys(it).map((field) => field.length)) + 3;
  for (const [field, value] of Object.entries(it)) {
    if (field === 'conditions' || value === null || value === undefined) continue;
    console.log(`${field.padEnd(width)}${typeof value === 'string' ? value : JSON.stringify(value)}`);
  }
  const conditions = it.conditions ?? [];
  console.log('\nConditions');
  console.log(
    table(
      ['type', 'status', 'reason', 'since', 'message'],
      conditions.map((one) => [one.type, one.status, one.reason, age(one.last_transition_at, now), one.message]),
    ),
  );
  const waiting = conditions.find((one) => one.type === 'Reconciling' && one.status === 'true');
  const stalled = conditions.find((one) => one.type === 'Stalled' && one.status === 'true');
  if (stalled !== undefined) console.log(`\nStalled: ${stalled.message}`);
  else if (waiting !== undefined)
    console.log(`\nWaits for: ${waiting.message === '' ? waiting.reason : waiting.message}`);
  else console.log('\nSettled: there is nothing left to do.');
  if (kind !== 'applications' && kind !== 'servers' && kind !== 'deployments') return;
  const events = Events.parse(await client.request('GET', `${pathOf(kind, it)}/events`));
  console.log('\nEvents');
  if (events.length === 0) console.log('none');
  else
    console.log(
      table(
        ['last', 'type', 'reason', 'count', 'message'],
        events.map((one) => [age(one.last_at, now), one.type, one.reason, String(one.count), one.message]),
      ),
    );
}
