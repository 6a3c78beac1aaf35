import type { SurveyedContainer } from '../../agent-protocol/survey.ts';
import type { BuiltImage } from '../../store/kinds/application.ts';

type Image = SurveyedContainer['image'];

/** The repository of a reference in its usual form: without tag, digest and the names of the default registry. */
export function repositoryOf(reference: string): string {
  const [named = ''] = reference.split('@');
  const colon = named.lastIndexOf(':');
  const repository = colon > named.lastIndexOf('/') ? named.slice(0, colon) : named;
  return repository.replace(/^(?:index\.)?docker\.io\//, '').replace(/^library\//, '');
}

/** Whether a container was made from an image that it names by its id. */
function isId(name: string): boolean {
  return /^(?:sha256:)?[0-9a-f]{12,64}$/.test(name);
}

/**
 * The reference of exactly the image that the container runs: with the digest, as a tag may have moved since. An image
 * that no registry knows has its name only; `undefined`: it has neither.
 */
export function referenceOf({ name, digests }: Image): string | undefined {
  const isNamed = !isId(name);
  const wanted = repositoryOf(name);
  const known = isNamed ? digests.find((one) => repositoryOf(one) === wanted) : digests[0];
  if (known === undefined) return isNamed ? name : undefined;
  const [, digest = ''] = known.split('@');
  const [tagged = ''] = (isNamed ? name : known).split('@');
  return `${tagged}@${digest}`;
}

/**
 * The image of a container that no registry has: by its id, as its name may be that of another image since. `undefined`:
 * {@link referenceOf} is exact.
 */
export function localImageOf(image: Image): BuiltImage | undefined {
  if (!image.is_shared || referenceOf(image) !== image.name || image.name.includes('@')) return undefined;
  return /^sha256:[0-9a-f]{64}$/.test(image.id) ? { image: image.name, image_digest: image.id } : undefined;
}

const engines: Readonly<Record<string, string>> = {
  postgres: 'PostgreSQL',
  postgresql: 'PostgreSQL',
  postgis: 'PostgreSQL',
  pgvector: 'PostgreSQL',
  timescaledb: 'PostgreSQL',
  'timescaledb-ha': 'PostgreSQL',
  mysql: 'MySQL',
  percona: 'MySQL',
  mariadb: 'MariaDB',
  redis: 'Redis',
  'redis-stack-server': 'Redis',
  valkey: 'Valkey',
  keydb: 'KeyDB',
  dragonfly: 'Dragonfly',
  mongo: 'MongoDB',
  mongodb: 'MongoDB',
  'clickhouse-server': 'ClickHouse',
};

/** Which database an image is; `undefined`: none that is known. */
export function databaseOf({ name, digests }: Image): string | undefined {
  const reference = isId(name) ? (digests[0] ?? '') : name;
  return engines[repositoryOf(reference).split('/').at(-1) ?? ''];
}
