import { z } from 'zod';
import type { Clock } from '../../../time/clock.ts';
import type { SharedBridge } from '../runtime.ts';
import type { Engine } from './engine.ts';
import { isStatus } from './failure.ts';
import { jsonLines } from './json-lines.ts';
import { unavailable } from './transport.ts';

/** Name of the network that the engine runs steps of BuildKit in. */
const network = 'bridge';
/** The steps are on it with ids of another form. */
const containerId = /^[0-9a-f]{64}$/;
const nameOption = 'com.docker.network.bridge.name';

const Inspected = z.object({
  EnableIPv6: z.boolean().nullish(),
  Options: z.record(z.string(), z.string()).nullish(),
  Containers: z
    .record(z.string(), z.object({ IPv4Address: z.string().nullish(), IPv6Address: z.string().nullish() }))
    .nullish(),
});
const Event = z.object({ Actor: z.object({ Attributes: z.record(z.string(), z.string()).nullish() }).nullish() });

/** See `ContainerRuntime.sharedBridge`. */
export async function* sharedBridge(
  engine: Engine,
  clock: Clock,
  signal: AbortSignal,
): AsyncGenerator<SharedBridge | undefined> {
  const filters = JSON.stringify({ type: ['network'], event: ['connect', 'disconnect'] });
  // The engine subscribes only after it has answered. With `since` it replays the events in between.
  const since = (clock.now().getTime() - 1000) / 1000;
  const events = await engine.open({ method: 'GET', path: ['events'], query: { filters, since } }, signal);
  yield await look(engine, signal);
  for await (const line of jsonLines(events))
    if (Event.parse(line).Actor?.Attributes?.['name'] === network) yield await look(engine, signal);
  throw unavailable('The container engine ended its stream of events');
}

async function look(engine: Engine, signal: AbortSignal): Promise<SharedBridge | undefined> {
  try {
    const answer = await engine.call({ method: 'GET', path: ['networks', network] }, signal);
    const { EnableIPv6, Options, Containers } = Inspected.parse(answer);
    const addresses = Object.entries(Containers ?? {}).flatMap(([id, { IPv4Address, IPv6Address }]) =>
      containerId.test(id) ? [IPv4Address, IPv6Address].flatMap((one) => one?.split('/')[0] || []) : [],
    );
    return { name: Options?.[nameOption] ?? 'docker0', addresses, hasIpv6: EnableIPv6 === true };
  } catch (error) {
    if (isStatus(error, 404)) return undefined;
    throw error;
  }
}
