import { z } from 'zod';
import { belongingsOf } from '../belongings.ts';
import { labels, type Belongings } from '../runtime.ts';
import type { Engine } from './engine.ts';
import { tagNames } from './images.ts';

const Labels = z
  .record(z.string(), z.string())
  .nullish()
  .transform((given) => given ?? {});
const Containers = z.array(
  z.object({ Id: z.string(), Names: z.array(z.string()).nullish(), Labels, State: z.string() }),
);
const Networks = z.array(z.object({ Name: z.string(), Labels }));
const Images = z.array(z.object({ Id: z.string(), RepoTags: tagNames, Labels }));

/** Returns everything on the engine that has the label of a server, by server. */
export async function belongings(engine: Engine, signal: AbortSignal): Promise<Belongings[]> {
  const query = { filters: JSON.stringify({ label: [labels.server] }) };
  const [containers, networks, images] = await Promise.all([
    engine.call({ method: 'GET', path: ['containers', 'json'], query: { ...query, all: true } }, signal),
    engine.call({ method: 'GET', path: ['networks'], query }, signal),
    engine.call({ method: 'GET', path: ['images', 'json'], query }, signal),
  ]);
  return belongingsOf({
    containers: Containers.parse(containers).map(({ Id, Names, State, Labels: own }) => {
      return { id: Id, names: Names?.map((name) => name.replace(/^\//, '')) ?? [], state: State, labels: own };
    }),
    networks: Networks.parse(networks).map(({ Name, Labels: own }) => ({ name: Name, labels: own })),
    images: Images.parse(images).map(({ Id, RepoTags, Labels: own }) => ({ id: Id, names: RepoTags, labels: own })),
  });
}
