import { randomUUID } from 'node:crypto';
import { request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { engineCall, engineSocket } from '../test/harness/docker.ts';

const label = 'setpoint-bench';
const Created = z.object({ Id: z.string() });
const Inspected = z.object({
  NetworkSettings: z.object({ Networks: z.record(z.string(), z.object({ IPAddress: z.string() })) }),
});

export interface RawContainer {
  id: string;
  /** URL of its port 8080. */
  url: string;
}

/** Containers made by direct calls of the engine's API, on a bridge network of their own. */
export interface RawContainers extends AsyncDisposable {
  /** Creates and starts a container. */
  run(changes?: object): Promise<RawContainer>;
  remove(id: string): Promise<void>;
  /** The fastest possible repair: until the signal aborts, makes a new container at once when one is destroyed. */
  repair(made: (it: RawContainer) => void, signal: AbortSignal): Promise<void>;
}

export async function rawContainers(image: string): Promise<RawContainers> {
  const owner = randomUUID();
  const network = `${label}-${owner.slice(0, 8)}`;
  await engineCall('POST', '/networks/create', { Name: network, Driver: 'bridge', Labels: { [label]: owner } });
  const ids = new Set<string>();
  const run: RawContainers['run'] = async (changes = {}) => {
    const { Id: id } = Created.parse(
      await engineCall('POST', '/containers/create', {
        Image: image,
        Labels: { [label]: owner },
        HostConfig: { NetworkMode: network },
        ...changes,
      }),
    );
    ids.add(id);
    await engineCall('POST', `/containers/${id}/start`);
    const it = Inspected.parse(await engineCall('GET', `/containers/${id}/json`));
    return { id, url: `http://${it.NetworkSettings.Networks[network]?.IPAddress ?? ''}:8080/` };
  };
  return {
    run,
    async remove(id) {
      ids.delete(id);
      await engineCall('DELETE', `/containers/${id}?force=true`);
    },
    async repair(made, signal) {
      const filters = JSON.stringify({ label: [`${label}=${owner}`], event: ['destroy'] });
      await eachEvent(filters, signal, async () => made(await run()));
    },
    async [Symbol.asyncDispose]() {
      for (const id of ids) await engineCall('DELETE', `/containers/${id}?force=true`).catch(() => undefined);
      await engineCall('DELETE', `/networks/${network}`);
    },
  };
}

async function eachEvent(filters: string, signal: AbortSignal, act: () => Promise<void>): Promise<void> {
  const path = `/v1.41/events?filters=${encodeURIComponent(filters)}`;
  const opened = Promise.withResolvers<void>();
  const asked = request({ socketPath: engineSocket, path, headers: { host: 'engine' }, signal }, (answer) => {
    opened.resolve();
    answer.on('data', () => void act());
    answer.on('error', () => undefined); // the signal
  });
  asked.on('error', (error) => opened.reject(error));
  asked.end();
  await opened.promise;
}

/** Timeout of one request: the address of a removed container never answers, so that the request is repeated. */
const answerMs = 50;

/** Resolves at the first answer with status 200. Repeats the request as soon as it fails. */
export async function firstAnswer(url: string, timeoutMs = 30_000): Promise<void> {
  const end = performance.now() + timeoutMs;
  while (!(await answers(url))) {
    if (performance.now() > end) throw new Error(`Nothing answered at ${url}`);
    await delay(1);
  }
}

function answers(url: string): Promise<boolean> {
  return new Promise((resolve) => {
    const asked = request(url, { agent: false, timeout: answerMs }, (answer) => {
      answer.resume();
      resolve(answer.statusCode === 200);
    });
    asked.on('timeout', () => asked.destroy());
    asked.on('error', () => resolve(false));
    asked.end();
  });
}
