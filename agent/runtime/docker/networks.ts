import { z } from 'zod';
import { labels as ours, RuntimeFailure, type ContainerRuntime } from '../runtime.ts';
import type { Engine } from './engine.ts';
import { unlessAborted } from '../../unless-aborted.ts';
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
/** What an interface can be called. */
const bridgeName = /^sp-[0-9A-Za-z]{1,12}$/;
/** Address ranges that are tried for one network. */
const maxSubnets = 100;

type Labels = Readonly<Record<string, string>>;

type Verbs = Pick<ContainerRuntime, 'ensureNetwork' | 'removeNetwork' | 'networks'>;

/** The network verbs of the runtime: bridge networks, one per environment. */
export function networks(engine: Engine): Verbs {
  // The engine makes two networks of one name when it is asked twice at once, and then takes the name for neither. So
  // one turn per name at a time, and a turn goes on to its end even when its caller has gone: the engine would, too.
  const turns = new Map<string, Promise<void>>();
  return {
    ensureNetwork(name, labels, signal) {
      const turn = (turns.get(name) ?? Promise.resolve())
        .catch(() => undefined)
        .then(() => ensure(engine, name, labels))
        .finally(() => {
          if (turns.get(name) === turn) turns.delete(name);
        });
      turns.set(name, turn);
      return unlessAborted(turn, signal);
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

/** Every call of it is bounded by the engine's own deadline. */
async function ensure(engine: Engine, name: string, labels: Labels): Promise<void> {
  const { signal } = new AbortController();
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
  try {
    if (await create(engine, name, labels, undefined, signal)) return;
    let tries = 0;
    for await (const subnet of freeSubnets(name)) {
      if (await create(engine, name, labels, subnet, signal)) return;
      if (++tries === maxSubnets) break;
    }
  } catch (error) {
    fail(error, { code: 'create_failed', attempted: `Cannot create network ${name}`, codes: [] });
  }
  const message = `Cannot create network ${name}: the container engine has no addresses left for it`;
  throw new RuntimeFailure('create_failed', message, { retryable: true });
}

/** @returns false when the addresses are not to be had. */
async function create(
  engine: Engine,
  name: string,
  labels: Labels,
  subnet: string | undefined,
  signal: AbortSignal,
): Promise<boolean> {
  const ipam = subnet === undefined ? {} : { IPAM: { Config: [{ Subnet: subnet }] } };
  // By its own name the bridge is known to rules that are there before it.
  const options = bridgeName.test(name) ? { Options: { 'com.docker.network.bridge.name': name } } : {};
  const body = { Name: name, Driver: 'bridge', CheckDuplicate: true, Labels: labels, ...options, ...ipam };
  try {
    await engine.call({ method: 'POST', path: ['networks', 'create'], body }, signal);
    return true;
  } catch (error) {
    const taken = /available.* address pool|all predefined address pools|overlaps with other one/i;
    if (error instanceof EngineError && taken.test(error.reason)) return false;
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
