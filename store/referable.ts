import type { Address } from '../databases/engine.ts';
import { engines } from '../databases/engines.ts';
import type { DeepReadonly } from './deep-readonly.ts';
import { foldName } from './fold-name.ts';
import type { Resolved } from './kinds/fields.ts';
import { poolerService, sideHost } from './kinds/internal-id.ts';
import type { DesiredOf, KindName } from './kinds/kinds.ts';
import type { TenantView } from './mirror.ts';
import type { ReferableKind, Reference } from './references.ts';
import { parseReferences, referenceText } from './references.ts';
import { isStaying } from './resource.ts';
import type { ReadonlyResource } from './resource.ts';

type View = Pick<TenantView, 'get' | 'by'>;
/** `comes`: what it stands for is being made. */
type Target = { kind: KindName; id: string; value: Resolved } | { kind: KindName; id: string; comes: Because } | Lack;
interface Lack {
  lack: string;
}
type Value = Resolved | { comes: Because } | Lack;
/** Words that follow "waits for". */
type Because = `${string} to ${string}`;

/** What other objects of its environment may take of an object of a kind. */
interface Referable<K extends KindName> {
  kind: K;
  /** The values by attribute. A secret stays sealed. `lack` follows "as". */
  attributes: Readonly<Record<string, (desired: DeepReadonly<DesiredOf<K>>, isNew: boolean) => Value>>;
}

type App = DeepReadonly<DesiredOf<'application'>>;

function portOf({ config, name }: App): string | Lack {
  return config.exposed_port === undefined
    ? { lack: `application ${name} has no exposed_port: set it` }
    : String(config.exposed_port);
}

const ofApplications: Referable<'application'> = {
  kind: 'application',
  attributes: {
    host: (app) => app.internal_id,
    port: (app) => portOf(app),
    url: (app) => {
      const port = portOf(app);
      return typeof port === 'string' ? `http://${app.internal_id}:${port}` : port;
    },
  },
};

/** Stands where the password is: no name of a user or a database may have it. */
const placeholder = '~.~';

type Db = DeepReadonly<DesiredOf<'database'>>;

/** Where clients share connections to a database, or why they do not. */
function pooledOf({ type, name, internal_id, connection_pooling }: Db): Address | Lack {
  const { pooler, word } = engines[type];
  if (pooler === undefined) return { lack: `connections to ${word} cannot be pooled: take the others` };
  if (connection_pooling !== true)
    return { lack: `connections to database ${name} are not pooled: set connection_pooling` };
  return { host: sideHost(internal_id, poolerService), port: pooler.port };
}

function urlOf({ type, database_user, database_name, password, require_tls }: Db, address: Address): Resolved {
  const credentials = { username: database_user, password: placeholder, database: database_name };
  const url = engines[type].url(address, credentials, { isEncrypted: require_tls === true });
  const [before = '', after = ''] = url.split(placeholder);
  return { before, secret: { ...password }, after, isInUrl: true };
}

/** The authority by whose certificate clients know the engine. */
function authorityOf({ type, name, tls }: Db, isNew: boolean): Value {
  const { encryption, word } = engines[type];
  if (tls !== undefined) return tls.authority;
  if (encryption === undefined) return { lack: `TLS is not offered for ${word}` };
  if (isNew) return { comes: `the certificate of database ${name} to be made` };
  return { lack: `database ${name} speaks TLS from its next start on only: restart it` };
}

const ofDatabases: Referable<'database'> = {
  kind: 'database',
  attributes: {
    host: ({ internal_id }) => internal_id,
    port: ({ type }) => String(engines[type].port),
    user: ({ database_user }) => database_user,
    password: ({ password }) => ({ before: '', secret: { ...password }, after: '', isInUrl: false }),
    name: ({ database_name }) => database_name,
    url: (it) => urlOf(it, { host: it.internal_id, port: engines[it.type].port }),
    ca: authorityOf,
    pooled_host: (it) => {
      const address = pooledOf(it);
      return 'lack' in address ? address : address.host;
    },
    pooled_port: (it) => {
      const address = pooledOf(it);
      return 'lack' in address ? address : String(address.port);
    },
    pooled_url: (it) => {
      const address = pooledOf(it);
      return 'lack' in address ? address : urlOf(it, address);
    },
  },
};

/** What variables take of the pooler of a database. */
export const pooledAttributes: readonly string[] = ['pooled_host', 'pooled_port', 'pooled_url'];

/** Each kind that can be referred to. */
const referable: { readonly [K in ReferableKind]: (view: View, environmentId: string, of: Reference) => Target } = {
  applications: (view, environmentId, reference) => find(ofApplications, { view, environmentId, reference }),
  databases: (view, environmentId, reference) => find(ofDatabases, { view, environmentId, reference }),
};

function find<K extends 'application' | 'database'>(
  { kind, attributes }: Referable<K>,
  { view, environmentId, reference }: { view: View; environmentId: string; reference: Reference },
): Target {
  const { name, attribute } = reference;
  if (!Object.hasOwn(attributes, attribute))
    return {
      lack: `of ${kind === 'application' ? 'an' : 'a'} ${kind} one can refer to ${Object.keys(attributes).join(', ')}`,
    };
  const folded = foldName(name);
  const all: readonly ReadonlyResource<K>[] = view.by(kind, 'environment', environmentId);
  const it = all.find((one) => isStaying(one) && foldName(one.desired.name) === folded);
  if (it === undefined)
    return { lack: `its environment has no ${kind} named ${name}: create it, or change the variable` };
  const value = attributes[attribute]?.(it.desired, isNew(it)) ?? { lack: `there is no ${attribute}` };
  if (typeof value === 'object' && 'lack' in value) return value;
  const found = { kind, id: it.meta.id };
  return typeof value === 'object' && 'comes' in value ? { ...found, ...value } : { ...found, value };
}

/** Whether it is a database that has not been ready yet. */
function isNew({ observed }: { readonly observed?: object }): boolean {
  return observed === undefined || !('initialised' in observed);
}

/** The object that a reference names, and what it stands for; or what it lacks, in words that follow "as". */
export function findTarget(view: View, environmentId: string, reference: Reference): Target {
  return referable[reference.kind](view, environmentId, reference);
}

/** What references stand for; `comes`: what one stands for is being made. */
export type Resolution = { values: Record<string, Resolved> } | { comes: Because } | { fault: string };

/** What each of these references stands for, by its text, or why one stands for nothing. */
export function resolveReferences(view: View, environmentId: string, texts: readonly string[]): Resolution {
  const values: Record<string, Resolved> = {};
  let comes: Because | undefined;
  for (const text of texts) {
    const found = targetOf(view, environmentId, text);
    if ('lack' in found) return { fault: `Cannot resolve ${text} as ${found.lack}` };
    if ('comes' in found) comes ??= found.comes;
    else values[text] = found.value;
  }
  return comes === undefined ? { values } : { comes };
}

/** An object whose variables refer to others of its environment. */
interface Referring {
  meta: { readonly id: string };
  desired: {
    readonly environment_id: string;
    readonly config: { readonly references?: readonly string[] | undefined };
  };
}

/**
 * Ids of the objects of a kind in its environment that an application or a function refers to, without itself.
 *
 * @param attributes only those of which it takes one of these
 */
export function referredObjects(
  view: View,
  { meta, desired }: Referring,
  kind: 'application' | 'database',
  attributes?: readonly string[],
): string[] {
  const found = (desired.config.references ?? []).flatMap((text) => {
    const reference = referenceIn(text);
    if (reference === undefined || attributes?.includes(reference.attribute) === false) return [];
    const target = findTarget(view, desired.environment_id, reference);
    return 'id' in target && target.kind === kind && target.id !== meta.id ? [target.id] : [];
  });
  return [...new Set(found)];
}

function targetOf(view: View, environmentId: string, text: string): Target {
  const reference = referenceIn(text);
  return reference === undefined ? { lack: 'it is no reference' } : findTarget(view, environmentId, reference);
}

function referenceIn(text: string): Reference | undefined {
  const parsed = parseReferences(text);
  const reference = 'parts' in parsed ? parsed.parts[0] : undefined;
  return typeof reference === 'object' ? reference : undefined;
}

/** The value with each reference replaced, once. @throws Error naming a reference that was not resolved */
export function withReferences(value: string, values: Readonly<Record<string, string>>): string {
  const parsed = parseReferences(value);
  if ('fault' in parsed) throw new Error(`Cannot read references as ${parsed.fault}`);
  return parsed.parts
    .map((part) => {
      if (typeof part === 'string') return part;
      const text = referenceText(part);
      const found = Object.hasOwn(values, text) ? values[text] : undefined;
      if (found === undefined) throw new Error(`${text} was not resolved`);
      return found;
    })
    .join('');
}
