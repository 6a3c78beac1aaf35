import { z } from 'zod';
import { RuntimeFailure, type ContainerRuntime } from '../runtime.ts';
import type { Engine } from './engine.ts';
import { fail, isStatus } from './failure.ts';

const Labels = z.record(z.string(), z.string()).nullable();
const Inspected = z.object({ Name: z.string(), Labels });
const Listed = z.array(Inspected);

type Verbs = Pick<ContainerRuntime, 'ensureNetwork' | 'removeNetwork' | 'networks'>;

/** The network verbs of the runtime: bridge networks, one per environment. */
export function networks(engine: Engine): Verbs {
  return {
    async ensureNetwork(name, labels, signal) {
      if (await isOurs(engine, name, labels, signal)) return;
      const body = {
        Name: name,
        Driver: 'bridge',
        // Without it two creators at once make two networks of one name.
        CheckDuplicate: true,
        Labels: labels,
      };
      try {
        await engine.call({ method: 'POST', path: ['networks', 'create'], body }, signal);
      } catch (error) {
        if (isStatus(error, 409) && (await isOurs(engine, name, labels, signal))) return;
        fail(error, { code: 'create_failed', attempted: `Cannot create network ${name}`, codes: ['name_taken'] });
      }
    },

    async removeNetwork(name, signal) {
      try {
        await engine.call({ method: 'DELETE', path: ['networks', name] }, signal);
      } catch (error) {
        // 403: containers are attached to it.
        if (!isStatus(error, 404, 403)) {
          fail(error, { code: 'runtime_unavailable', attempted: `Cannot remove network ${name}`, codes: [] });
        }
      }
    },

    async networks(labels, signal) {
      const filters = JSON.stringify({ label: Object.entries(labels).map(([key, value]) => `${key}=${value}`) });
      const answer = await engine.call({ method: 'GET', path: ['networks'], query: { filters } }, signal);
      return Listed.parse(answer).map((one) => one.Name);
    },
  };
}

/** @throws RuntimeFailure `name_taken` when a stranger's network has the name. */
async function isOurs(
  engine: Engine,
  name: string,
  labels: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<boolean> {
  // By name through the list: the inspect path would take an id as well.
  const filters = JSON.stringify({ name: [name] });
  const listed = Listed.parse(await engine.call({ method: 'GET', path: ['networks'], query: { filters } }, signal));
  const found = listed.find((one) => one.Name === name);
  if (!found) return false;
  if (Object.entries(labels).every(([key, value]) => found.Labels?.[key] === value)) return true;
  throw new RuntimeFailure('name_taken', `A network named ${name} exists already and bears other labels`, {
    retryable: true,
  });
}
