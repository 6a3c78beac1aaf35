import { z } from 'zod';
import { labels } from '../runtime.ts';
import type { Engine } from './engine.ts';

const Labels = z.record(z.string(), z.string()).nullish();
const Containers = z.array(z.object({ Id: z.string(), Names: z.array(z.string()).nullish(), Labels }));
const Networks = z.array(z.object({ Name: z.string(), Labels }));
const Images = z.array(z.object({ Id: z.string(), Labels }));

/** What an engine has of one server, whichever agent made it. */
export interface Belongings {
  server: string;
  /** Ids. Only containers that also have the name that an agent gives to the container of their assignment. */
  containers: string[];
  /** Names. */
  networks: string[];
  /** Ids, each once. */
  images: string[];
}

/** Returns everything on the engine that has the label of a server, by server. */
export async function belongings(engine: Engine, signal: AbortSignal): Promise<Belongings[]> {
  const query = { filters: JSON.stringify({ label: [labels.server] }) };
  const [containers, networks, images] = await Promise.all([
    engine.call({ method: 'GET', path: ['containers', 'json'], query: { ...query, all: true } }, signal),
    engine.call({ method: 'GET', path: ['networks'], query }, signal),
    engine.call({ method: 'GET', path: ['images', 'json'], query }, signal),
  ]);
  const found = new Map<string, Belongings>();
  const of = (server: string): Belongings => {
    const it = found.get(server) ?? { server, containers: [], networks: [], images: [] };
    found.set(server, it);
    return it;
  };
  for (const one of Containers.parse(containers)) {
    const { [labels.server]: server, [labels.assignment]: assignment } = one.Labels ?? {};
    // A foreign container with copied labels does not count.
    const isNamed = one.Names?.some((name) => name.startsWith('/sp-') && name.endsWith(`-${assignment?.slice(0, 8)}`));
    if (server !== undefined && assignment !== undefined && isNamed === true) of(server).containers.push(one.Id);
  }
  for (const { Name, Labels: own } of Networks.parse(networks))
    if (own?.[labels.server] !== undefined && Name.startsWith('sp-')) of(own[labels.server] ?? '').networks.push(Name);
  for (const { Id, Labels: own } of Images.parse(images)) {
    const server = own?.[labels.server];
    if (server !== undefined && !of(server).images.includes(Id)) of(server).images.push(Id);
  }
  return [...found.values()];
}
