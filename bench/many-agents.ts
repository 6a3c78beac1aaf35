import { generateKeyPairSync } from 'node:crypto';
import { systemClock } from '../time/clock.ts';
import { openStore } from '../store/open.ts';
import { openRepository } from '../store/repo.ts';
import type { AgentsArgument } from './programs/agents.ts';
import { seedApplication, seedMany, seedProject, seedServer } from './seed.ts';

/** Creates servers with the keys of their agents, and `perAgent` applications that should run on each. */
export async function seedAgents(
  storeUrl: string,
  { count, perAgent }: { count: number; perAgent: number },
): Promise<AgentsArgument['agents']> {
  await using store = await openStore(storeUrl);
  const repository = openRepository(store, 'default', systemClock);
  const place = await seedProject(repository);
  const agents = Array.from({ length: count }, () => {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519');
    return {
      server: crypto.randomUUID(),
      publicKey: publicKey.export({ format: 'jwk' }).x ?? '',
      privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    };
  });
  const ids = agents.map(({ server: id, publicKey }) => ({ id, publicKey }));
  await seedMany(repository, count, (unit, n) => seedServer(unit, ids[n] ?? { id: '', publicKey: '' }, n));
  await seedMany(repository, count * perAgent, (unit, n) => {
    const server = ids[n % count]?.id ?? '';
    seedApplication(unit, { ...place, server }, n, { deployed: true });
  });
  return agents;
}

/** Calls `send` again and again with pauses. When the signal aborts, resolves with the milliseconds of each call. */
export async function timed(send: () => Promise<unknown>, pauseMs: number, signal: AbortSignal): Promise<number[]> {
  const times: number[] = [];
  while (!signal.aborted) {
    const start = performance.now();
    await send();
    times.push(performance.now() - start);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
  return times;
}
