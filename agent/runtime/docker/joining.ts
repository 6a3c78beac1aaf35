import { z } from 'zod';
import type { ContainerSpec, NetworkPlace } from '../runtime.ts';
import type { Engine } from './engine.ts';
import { isStatus } from './failure.ts';

/**
 * Option of a container's place in its first network that names its further networks, as JSON. The engine keeps it with
 * the container and its network driver ignores it. A label would not do: an image can set any label.
 */
const furtherOption = 'setpoint.networks';

const Further = z.array(z.object({ name: z.string(), aliases: z.array(z.string()) }));

const Joined = z.object({
  NetworkSettings: z.object({
    Networks: z.record(z.string(), z.object({ DriverOpts: z.record(z.string(), z.string()).nullish() })).nullish(),
  }),
});

/** Returns the settings of the first network for the creation of a container, which can have no more (API 1.43). */
export function firstEndpoint([first, ...further]: ContainerSpec['networks']): object {
  return {
    ...endpoint(first),
    ...(further.length > 0 && { DriverOpts: { [furtherOption]: JSON.stringify(further) } }),
  };
}

/**
 * Connects a container to the networks of its spec that it is not on. The container itself shows which they are, since
 * an agent can end, or lose an answer, between its creation and its connection. Does nothing if there is no such
 * container.
 * @throws EngineError, RuntimeFailure
 */
export async function joinAll(engine: Engine, id: string, signal: AbortSignal): Promise<void> {
  for (const network of await missing(engine, id, signal)) {
    const body = { Container: id, EndpointConfig: endpoint(network) };
    await engine.call({ method: 'POST', path: ['networks', network.name, 'connect'], body }, signal);
  }
}

async function missing(engine: Engine, id: string, signal: AbortSignal): Promise<NetworkPlace[]> {
  try {
    const found = Joined.parse(await engine.call({ method: 'GET', path: ['containers', id, 'json'] }, signal));
    const { Networks: networks } = found.NetworkSettings;
    const options = Object.values(networks ?? {}).map(({ DriverOpts }) => DriverOpts?.[furtherOption] ?? '[]');
    const further = options.flatMap((one) => Further.parse(JSON.parse(one)));
    return further.filter(({ name }) => !Object.hasOwn(networks ?? {}, name));
  } catch (error) {
    if (isStatus(error, 404)) return [];
    throw error;
  }
}

function endpoint({ aliases }: NetworkPlace): object {
  return { Aliases: aliases };
}
