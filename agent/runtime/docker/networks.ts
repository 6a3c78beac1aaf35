import { z } from 'zod';
import { bears } from '../bears.ts';
import { labels as ours, RuntimeFailure, type ContainerRuntime } from '../runtime.ts';
import type { Engine } from './engine.ts';
import { unlessAborted } from '../../../time/unless-aborted.ts';
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
/** Names of networks that also fit as the name of an interface (at most 15 characters). */
const bridgeName = /^sp-[0-9A-Za-z]{1,12}$/;
/** Most address ranges that are tried for one network. */
const maxSubnets = 100;

type Labels = Readonly<Record<string, string>>;

type Verbs = Pick<ContainerRuntime, 'ensureNetwork' | 'removeNetwork' | 'networks'>;

/** The network verbs of the runtime: bridge networks, one per environment. */
export function networks(engine: Engine): Verbs {
  // Two requests at the same time make two networks of one name, and the engine then accepts the name for neither. So
  // only one turn per name runs at a time. It runs to its end even if its caller aborts, since the engine does so too.
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

/** Makes sure that the network exists. It has no signal: each of its calls has its own deadline. */
async function ensure(engine: Engine, name: string, labels: Labels): Promise<void> {
  const { signal } = new AbortController();
  const present = await named(engine, name, signal);
  const [first, ...twins] = present.filter((one) => bears(one.Labels, labels));
  if (first) {
    // Twins remain if the agent ended between a request and its answer.
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

/** Returns false if the engine has no addresses left, or if the subnet is in use. */
async function create(
  engine: Engine,
  name: string,
  labels: Labels,
  subnet: string | undefined,
  signal: AbortSignal,
): Promise<boolean> {
  const ipam = subnet === undefined ? {} : { IPAM: { Config: [{ Subnet: subnet }] } };
  // The bridge gets the network's name, so that rules can match it before it exists.
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

/** Removes a network. A network with attached containers stays. */
async function remove(engine: Engine, network: Listed[number], signal: AbortSignal): Promise<void> {
  try {
    await engine.call({ method: 'DELETE', path: ['networks', network.Id] }, signal);
  } catch (error) {
    if (isStatus(error, 404, 403)) return;
    fail(error, { code: 'runtime_unavailable', attempted: `Cannot remove network ${network.Name}`, codes: [] });
  }
}

/**
 * Returns the networks of that name, oldest first. It uses the list, since the path of a network also accepts an id.
 */
async function named(engine: Engine, name: string, signal: AbortSignal): Promise<Listed> {
  const found = await list(engine, { name: [name] }, signal);
  return found.filter((one) => one.Name === name).toSorted((a, b) => (a.Created < b.Created ? -1 : 1));
}

async function list(engine: Engine, filters: object, signal: AbortSignal): Promise<Listed> {
  const query = { filters: JSON.stringify(filters) };
  return Listed.parse(await engine.call({ method: 'GET', path: ['networks'], query }, signal));
}
