import { isImageOfAgent, isOfAgent } from './foreign.ts';
import type { Belongings } from './runtime.ts';
import { labels as ours } from './runtime.ts';

type Labels = Readonly<Record<string, string>>;

/** All that an engine has with the label of a server. */
interface Labelled {
  containers: readonly { id: string; names: readonly string[]; state: string; labels: Labels }[];
  networks: readonly { name: string; labels: Labels }[];
  images: readonly { id: string; names: readonly string[]; labels: Labels }[];
}

/** States of a container of which nothing runs. */
const atRest = new Set(['created', 'exited', 'dead']);

/** Orders it by server. What is foreign and has copied labels does not count: it has another name. */
export function belongingsOf({ containers, networks, images }: Labelled): Belongings[] {
  const found = new Map<string, Belongings>();
  const of = (server: string): Belongings => {
    const it = found.get(server) ?? { server, containers: [], running: [], networks: [], images: [] };
    found.set(server, it);
    return it;
  };
  for (const { id, names, state, labels } of containers) {
    const server = labels[ours.server];
    if (server === undefined || !isOfAgent(names, labels)) continue;
    of(server).containers.push(id);
    if (!atRest.has(state)) of(server).running.push(id);
  }
  for (const { name, labels } of networks) {
    const server = labels[ours.server];
    if (server !== undefined && name.startsWith('sp-')) of(server).networks.push(name);
  }
  for (const image of images) {
    const server = image.labels[ours.server];
    if (server === undefined || !isImageOfAgent(image)) continue;
    if (!of(server).images.includes(image.id)) of(server).images.push(image.id);
  }
  return [...found.values()];
}
