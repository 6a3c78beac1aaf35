import { z } from 'zod';
import { labels as ours, RuntimeFailure, type ContainerRuntime } from '../runtime.ts';
import type { Engine } from './engine.ts';
import { fail, isStatus } from './failure.ts';
import { freeSubnets } from './subnets.ts';
import { EngineError } from './transport.ts';

const Listed = z.array(
  z.object({
    Id: z.string(),
    Name: z.string(),
    Created: z.string(),
    Labels: z.record(z.string(), z.string()).nullable(),
  }),
);
type Listed = z.infer<typeof Listed>;
const Created = z.object({ Id: z.string() });
/** Address ranges that are tried for one network. */
const maxSubnets = 100;

type Labels = Readonly<Record<string, string>>;

type Verbs = Pick<ContainerRuntime, 'ensureNetwork' | 'removeNetwork' | 'networks'>;

/** Ids of the networks that were ensured, by name. */
export type NetworkIds = Map<string, string>;

/**
 * The network verbs of the runtime: bridge networks, one per environment. What is ensured is noted in `ids`: engines
 * that are just making another network sometimes find a name twice and take it for ambiguous, an id never.
 */
export function networks(engine: Engine, ids: NetworkIds): Verbs {
  // The engine makes two networks of one name when it is asked twice at once, and then takes the name for neither.
  const turns = new Map<string, Promise<void>>();
  return {
    ensureNetwork(name, labels, signal) {
      const turn = (turns.get(name) ?? Promise.resolve())
        .catch(() => undefined)
        .then(async () => void ids.set(name, await ensure(engine, name, labels, signal)))
        .finally(() => {
          if (turns.get(name) === turn) turns.delete(name);
        });
      turns.set(name, turn);
      return turn;
    },

    async removeNetwork(name, signal) {
      ids.delete(name);
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

async function ensure(engine: Engine, name: string, labels: Labels, signal: AbortSignal): Promise<string> {
  const present = await named(engine, name, signal);
  const [first, ...twins] = present.filter((one) => bears(one, labels));
  if (first) {
    // Left by an agent that died between asking and hearing the answer.
    for (const twin of twins) await remove(engine, twin, signal);
    return first.Id;
  }
  if (present.length > 0) {
    const message = `A network named ${name} exists already and bears other labels`;
    throw new RuntimeFailure('name_taken', message, { retryable: true });
  }
  try {
    const plain = await create(engine, name, labels, undefined, signal);
    if (plain !== undefined) return plain;
    let tries = 0;
    for await (const subnet of freeSubnets(name)) {
      const id = await create(engine, name, labels, subnet, signal);
      if (id !== undefined) return id;
      if (++tries === maxSubnets) break;
    }
  } catch (error) {
    fail(error, { code: 'create_failed', attempted: `Cannot create network ${name}`, codes: [] });
  }
  const message = `Cannot create network ${name}: the container engine has no addresses left for it`;
  throw new RuntimeFailure('create_failed', message, { retryable: true });
}

/** @returns the network's id; `undefined` when the addresses are not to be had. */
async function create(
  engine: Engine,
  name: string,
  labels: Labels,
  subnet: string | undefined,
  signal: AbortSignal,
): Promise<string | undefined> {
  const ipam = subnet === undefined ? {} : { IPAM: { Config: [{ Subnet: subnet }] } };
  const body = { Name: name, Driver: 'bridge', CheckDuplicate: true, Labels: labels, ...ipam };
  try {
    return Created.parse(await engine.call({ method: 'POST', path: ['networks', 'create'], body }, signal)).Id;
  } catch (error) {
    const taken = /available.* address pool|all predefined address pools|overlaps with other one/i;
    if (error instanceof EngineError && taken.test(error.reason)) return undefined;
    throw error;
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
