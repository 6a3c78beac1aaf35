import { z } from 'zod';
import { unlessForbidden } from '../client.ts';
import type { ApiObject, Client } from '../client.ts';
import type { CliKind } from '../objects.ts';
import { findObject, kindOf, pathOf, rowOfKind } from '../objects.ts';
import { printed } from '../printed.ts';
import { progressText } from '../progress.ts';
import { openEnd } from '../settled.ts';
import { age, cell, table } from '../table.ts';
import { whyNot } from '../../rules/verb-table.ts';

const Events = z.array(
  z.looseObject({ type: z.string(), reason: z.string(), message: z.string(), count: z.number(), last_at: z.string() }),
);
const Instances = z.array(
  z.looseObject({
    id: z.string(),
    service: z.string().nullish(),
    replica: z.number(),
    status: z.string(),
    ready: z.boolean(),
    restarts: z.number(),
    started_at: z.string().nullable(),
    exit_code: z.number().nullable(),
  }),
);
const Fault = z.object({ code: z.string(), message: z.string() });

/** Prints everything about one object: fields, conditions, what it waits for and forbids, instances and events. */
export async function describe(
  client: Client,
  word: string,
  name: string,
  options: { project?: string; output?: string },
): Promise<void> {
  const kind = kindOf(word);
  const found = await findObject(client, kind, name, options.project);
  const it = await client.object('GET', pathOf(kind, found));
  if (options.output !== undefined && options.output !== 'text') {
    const parts = await partsOf(client, kind, it);
    const left = Object.keys(parts).filter((part) => parts[part] === undefined);
    if (left.length > 0) console.error(`Left out, as your role may not read it: ${left.join(', ')}`);
    console.log(await printed({ ...it, ...parts }, options.output));
    return;
  }
  const now = new Date();
  const conditions = it.conditions ?? [];
  console.log(fieldsOf(it));
  console.log('\nConditions');
  console.log(
    table(
      ['type', 'status', 'reason', 'since', 'message'],
      conditions.map((one) => [one.type, one.status, one.reason, age(one.last_transition_at, now), one.message]),
    ),
  );
  console.log(`\n${cell(openEnd(it) ?? 'Settled: there is nothing left to do.')}`);
  printHindered(kind, it);
  if (kind === 'applications') await printInstances(client, it, now);
  if (rowOfKind(kind).hasEvents) await printEventSection(client, kind, it, now);
}

/** Prints the verbs that the state of the object forbids or makes needless. The API judges by the same table. */
function printHindered(kind: CliKind, it: ApiObject): void {
  const { verbs } = rowOfKind(kind);
  const hindered = Object.entries(verbs.verbs).flatMap(([verb, { label }]) => {
    const reason = whyNot(verbs, verb, it);
    return reason === undefined ? [] : [[label, reason]];
  });
  if (hindered.length > 0) console.log(`\nNot now\n${table(['verb', 'reason'], hindered)}`);
}

/** The instances and events of an object, for kinds that have them; `undefined`: the caller may not read them. */
async function partsOf(client: Client, kind: CliKind, it: ApiObject): Promise<Record<string, unknown>> {
  const path = pathOf(kind, it);
  return {
    ...(kind === 'applications' && { instances: await unlessForbidden(client.request('GET', `${path}/instances`)) }),
    ...(rowOfKind(kind).hasEvents && { events: await unlessForbidden(client.request('GET', `${path}/events`)) }),
  };
}

/** The fields of an object that have a value, a line each. */
export function fieldsOf(it: ApiObject): string {
  const width = Math.max(...Object.keys(it).map((field) => field.length)) + 3;
  return Object.entries(it)
    .filter(([field, value]) => field !== 'conditions' && value !== null && value !== undefined)
    .map(([field, value]) => `${cell(field).padEnd(width)}${cell(shown(value))}`)
    .join('\n');
}

function shown(value: unknown): string {
  const fault = Fault.safeParse(value);
  if (fault.success) return `${fault.data.message} (${fault.data.code})`;
  return typeof value === 'string' ? value : (progressText(value) ?? JSON.stringify(value));
}

async function printInstances(client: Client, it: ApiObject, now: Date): Promise<void> {
  const instances = Instances.parse(await client.request('GET', `${pathOf('applications', it)}/instances`));
  if (instances.length === 0) return;
  const hasServices = instances.some(({ service }) => typeof service === 'string');
  console.log('\nInstances');
  console.log(
    table(
      [...(hasServices ? ['service'] : []), 'replica', 'status', 'ready', 'restarts', 'exit code', 'age', 'id'],
      instances.map((one) => [
        ...(hasServices ? [one.service ?? ''] : []),
        String(one.replica),
        one.status,
        one.ready ? 'yes' : 'no',
        String(one.restarts),
        String(one.exit_code ?? ''),
        age(one.started_at ?? undefined, now),
        one.id,
      ]),
    ),
  );
}

async function printEventSection(client: Client, kind: CliKind, it: ApiObject, now: Date): Promise<void> {
  console.log('\nEvents, newest first');
  const events = await unlessForbidden(client.request('GET', `${pathOf(kind, it)}/events`));
  if (events === undefined) console.log('Your role may not read them');
  else printEvents(events, now);
}

/** Prints the events of an object, newest first. @throws Refused */
export async function listEvents(client: Client, kind: CliKind, it: ApiObject, now: Date): Promise<void> {
  printEvents(await client.request('GET', `${pathOf(kind, it)}/events`), now);
}

function printEvents(answer: unknown, now: Date): void {
  const events = Events.parse(answer);
  if (events.length === 0) console.log('none');
  else
    console.log(
      table(
        ['last', 'type', 'reason', 'count', 'message'],
        events.map((one) => [age(one.last_at, now), one.type, one.reason, String(one.count), one.message]),
      ),
    );
}
