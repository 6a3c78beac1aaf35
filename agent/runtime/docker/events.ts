import { z } from 'zod';
import type { Clock } from '../../../time/clock.ts';
import { labels, type RuntimeEvent } from '../runtime.ts';
import type { Engine } from './engine.ts';
import { jsonLines } from './json-lines.ts';
import { unavailable } from './transport.ts';

/** Events whose effect a list or an inspection shows. `connect` is left out: every start of a container causes one. */
const containerActions = [
  'create',
  'destroy',
  'die',
  'kill',
  'oom',
  'pause',
  'rename',
  'restart',
  'start',
  'stop',
  'unpause',
  'update',
];
const networkActions = ['disconnect'];

const Event = z.object({
  Type: z.enum(['container', 'network']),
  Action: z.string(),
  timeNano: z.number().catch(0),
  Actor: z.object({ ID: z.string(), Attributes: z.record(z.string(), z.string()) }),
});

/**
 * Yields events of this server's containers, and of networks that any container leaves, from the moment of the call.
 * Ends only by its signal or an error.
 */
export function events(engine: Engine, clock: Clock, server: string, signal: AbortSignal): AsyncIterable<RuntimeEvent> {
  // A filter by label would drop events of networks: they have neither the network's labels nor the container's.
  const filters = JSON.stringify({ type: ['container', 'network'], event: [...containerActions, ...networkActions] });
  // The engine subscribes only after it has answered. With `since` it replays the events in between from its buffer.
  const since = (clock.now().getTime() - 1000) / 1000;
  return read(engine, server, { filters, since }, signal);
}

async function* read(
  engine: Engine,
  server: string,
  query: { filters: string; since: number },
  signal: AbortSignal,
): AsyncGenerator<RuntimeEvent> {
  const answer = await engine.open({ method: 'GET', path: ['events'], query }, signal);
  for await (const line of jsonLines(answer)) {
    const { Type, Action, Actor, timeNano } = Event.parse(line);
    const { container, exitCode } = Actor.Attributes;
    const at = timeNano / 1e6;
    if (Type === 'network') {
      if (container !== undefined) yield { containerId: container, action: Action, labels: {}, at };
    } else if (Actor.Attributes[labels.server] === server) {
      const ended = Action === 'die' && exitCode !== undefined && { exitCode: Number(exitCode) };
      yield { containerId: Actor.ID, action: Action, labels: Actor.Attributes, at, ...ended };
    }
  }
  throw unavailable('The container engine ended its stream of events');
}
