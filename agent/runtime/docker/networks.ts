import { z } from 'zod';
import { labels as ours, RuntimeFailure, type ContainerRuntime } from '../runtime.ts';
import type { Engine } from './engine.ts';
import { fail, isStatus } from './failure.ts';

const Listed = z.array(
  z.object({
    Id: z.string(),
    Name: z.string(),
    Created: z.string(),
    Labels: z.record(z.string(), z.string()).nullable(),
  }),
);
type Listed = z.infer<typeof Listed>;
type Labels = Readonly<Record<string, string>>;

type Verbs = Pick<ContainerRuntime, 'ensureNetwork' | 'removeNetwork' | 'networks'>;

/** The network verbs of the runtime: bridge networks, one per environment. */
export function networks(engine: Engine): Verbs {
  // The engine makes two networks of one name when it is asked twice at once, and then takes the name for neither.
  const turns = new Map<string, Promise<void>>();
  return {
    ensureNetwork(name, labels, signal) {
      const turn = (turns.get(name) ?? Promise.resolve())
        .catch(() => undefined)
        .then(() => ensure(engine, name, labels, signal))
        .finally(() => {
          if (turns.get(name) === turn) turns.delete(name);
        });
      turns.set(name, turn);
      return turn;
    },

    async removeNetwork(name, signal) {
      for (const network of await named(engine, name, signal)) {
        if (network.Labels?.[ours.server] !== undefined) await remove(engine, network, signal);
      }
    },

    async networks(labels, signal) {
      const wanted = { label: Object.entries(labels).map(([key, value]) => `${key}=${value}`) };
      return [...new Set((await list(engine, wanted, signal)).map((one) => one.Name))];
    },
  };
}

async function ensure(engine: Engine, name: string, labels: Labels, signal: AbortSignal): Promise<void> {
  const present = await named(engine, name, signal);
  const [first, ...twins] = present.filter((one) => bears(one, labels));
  if (first) {
    // Left by an agent that died between asking and hearing the answer.
    for (const twin of twins) await remove(engine, twin, signal);
    return;
  }
  if (present.length > 0) {
    const message = `A network named ${name} exists already and bears other labels`;
    throw new RuntimeFailure('name_taken', message, { retryable: true });
  }
  const body = { Name: name, Driver: 'bridge', CheckDuplicate: true, Labels: labels };
  try {
    await engine.call({ method: 'POST', path: ['networks', 'create'], body }, signal);
  } catch (error) {
    fail(error, { code: 'create_failed', attempted: `Cannot create network ${name}`, codes: [] });
  }
}

/** A network that containers are attached to stays. */
async function remove(engine: Engine, network: Listed[number], signal: AbortSignal): Promise<void> {
  try {
    await engine.call({ method: 'DELETE', path: ['networks', network.Id] }, signal);
  } catch (error) {
    if (isStatus(error, 404, 403)) return;
    fail(error, { code: 'runtime_unavailable', attempted: `Cannot remove network ${network.Name}`, codes: [] });
  }
}

/** Oldest first. By the list, since the path of one network would take an id for a name. */
async function named(engine: Engine, name: string, signal: AbortSignal): Promise<Listed> {
  const found = await list(engine, { name: [name] }, signal);
  return found.filter((one) => one.Name === name).toSorted((a, b) => (a.Created < b.Created ? -1 : 1));
}

async function list(engine: Engine, filters: object, signal: AbortSignal): Promise<Listed> {
  const query = { filters: JSON.stringify(filters) };
  return Listed.parse(await engine.call({ method: 'GET', path: ['networks'], query }, signal));
}

function bears(network: Listed[number], labels: Labels): boolean {
  return Object.entries(labels).every(([key, value]) => network.Labels?.[key] === value);
}
