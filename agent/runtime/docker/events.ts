import { z } from 'zod';
import type { Clock } from '../../../agent-protocol/clock.ts';
import { labels, type RuntimeEvent } from '../runtime.ts';
import type { Engine } from './engine.ts';
import { jsonLines } from './json-lines.ts';
import { unavailable } from './transport.ts';

const Event = z.object({
  Action: z.string(),
  Actor: z.object({ ID: z.string(), Attributes: z.record(z.string(), z.string()) }),
});

/** Events of this server's containers from the moment of the call. Ends only by its signal or by throwing. */
export function events(engine: Engine, clock: Clock, server: string, signal: AbortSignal): AsyncIterable<RuntimeEvent> {
  const filters = JSON.stringify({ type: ['container'], label: [`${labels.server}=${server}`] });
  // The engine subscribes after it answered: it replays what fell between from its buffer.
  const since = (clock.now().getTime() - 1000) / 1000;
  return read(engine, { filters, since }, signal);
}

async function* read(
  engine: Engine,
  query: { filters: string; since: number },
  signal: AbortSignal,
): AsyncGenerator<RuntimeEvent> {
  const answer = await engine.open({ method: 'GET', path: ['events'], query }, signal);
  for await (const line of jsonLines(answer)) {
    const { Action, Actor } = Event.parse(line);
    if (Action.startsWith('exec_')) continue;
    yield { containerId: Actor.ID, action: Action, labels: Actor.Attributes };
  }
  throw unavailable('The container engine ended its stream of events');
}
