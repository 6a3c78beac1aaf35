import { X509Certificate } from 'node:crypto';
import { engines } from '../../databases/engines.ts';
import { poolerService, sideHost } from '../../store/kinds/internal-id.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { isStaying } from '../../store/resource.ts';
import type { ConditionInput, ReadonlyResource } from '../../store/resource.ts';
import type { Sealer, Unsealer } from '../../store/seal.ts';
import { isMadeAs, isWanted, restartTokenOf } from '../rollout/slots.ts';
import type { Context } from '../runtime/controller.ts';
import { instanceDesired } from './instance.ts';
import type { Database, World } from './world.ts';

/** Seals the keys that are made, and opens those of authorities to sign by them. */
export type Secrets = Pick<Sealer, 'seal'> & Pick<Unsealer, 'unseal'>;

const dayMs = 86_400_000;
const certificateMs = 2 * 365 * dayMs;
const authorityMs = 20 * 365 * dayMs;
/** A certificate that ends in less than that is renewed. */
const renewMs = 60 * dayMs;

type Part = Pick<World, 'database' | 'server' | 'slots'>;

/** The names and addresses by which clients may reach a database. The first one is its own. */
function namesOf({ database, server }: Pick<World, 'database' | 'server'>): [string, ...string[]] {
  const { type, internal_id: host } = database.desired;
  const pooler = engines[type].pooler === undefined ? [] : [sideHost(host, poolerService)];
  const outside = server?.desired.ip_address;
  return [host, ...pooler, 'localhost', '127.0.0.1', '::1', ...(outside === undefined ? [] : [outside])];
}

/**
 * Why a database gets another certificate now, with which it begins anew; `undefined`: it does not. What runs is begun anew
 * for the end of its certificate alone: one without TLS, or with other names, gets its certificate with its next start.
 */
function dueCertificate(world: Part, now: Date): 'first' | 'ending' | 'renamed' | undefined {
  const { database, server } = world;
  const { type, tls, run } = database.desired;
  if (engines[type].encryption === undefined || server === undefined || run !== 'running') return undefined;
  if (tls !== undefined && Date.parse(tls.expires_at) - now.getTime() < renewMs) return 'ending';
  if (isBegun(world)) return undefined;
  if (tls === undefined) return 'first';
  return namesOf(world).every((name) => tls.names.includes(name)) ? undefined : 'renamed';
}

/** Whether its instance is as it is to be, so that nothing else begins it anew. */
function isBegun(world: Part): boolean {
  const { data_volume_id: volume, restart_token: token } = world.database.desired;
  const wanted = instanceDesired(world, token);
  return world.slots.some(
    (it) => it.desired.version === volume && isWanted(it) && restartTokenOf(it) === token && isMadeAs(it, wanted),
  );
}

/** Gives a database the certificate that is due, if one is. Resolves with the database as it is then. */
export async function withCertificate(world: Part, ctx: Context, secrets: Secrets): Promise<Database> {
  const { database } = world;
  const now = ctx.clock.now();
  const due = dueCertificate(world, now);
  const environment = ctx.view.get('environment', database.desired.environment_id);
  if (due === undefined || !isStaying(environment)) return database;
  const until = new Date(now.getTime() + certificateMs);
  const authority = await authorityOf(environment, ctx, { secrets, now, until });
  if (authority === undefined) return database;
  // it is loaded by the first database alone, since it takes memory
  const { issue } = await import('./x509.ts');
  const names = namesOf(world);
  const key = secrets.unseal(authority.key, authorityPlace(environment, ctx));
  const made = issue({ certificate: authority.certificate, key }, { names, from: now, until });
  const { id } = database.meta;
  const changed = await ctx.amend('database', id, (draft) => {
    draft.tls = {
      revision: (draft.tls?.revision ?? 0) + 1,
      certificate: made.certificate,
      authority: authority.certificate,
      key: secrets.seal(made.key, { tenant: ctx.tenant, kind: 'database', id, path: 'tls.key' }),
      names,
      expires_at: until.toISOString(),
    };
  });
  if (due === 'ending')
    ctx.event(database, {
      type: 'normal',
      reason: 'CertificateRenewed',
      message: 'Its certificate was to end: it begins anew with another one',
    });
  return changed ?? database;
}

type Environment = ReadonlyResource<'environment'>;
type Authority = NonNullable<Environment['desired']['authority']>;

/** The authority of an environment, which is made if there is none that outlives what it issues. */
async function authorityOf(
  environment: Environment,
  ctx: Context,
  { secrets, now, until }: { secrets: Secrets; now: Date; until: Date },
): Promise<Authority | undefined> {
  const { authority: known } = environment.desired;
  if (known !== undefined && isGoodUntil(known, until)) return known;
  const { newAuthority } = await import('./x509.ts');
  const { id } = environment.meta;
  const made = newAuthority({
    name: `Databases of environment ${id}`,
    from: now,
    until: new Date(now.getTime() + authorityMs),
  });
  const changed = await ctx.amend('environment', id, (draft: DesiredOf<'environment'>) => {
    if (draft.authority !== undefined && isGoodUntil(draft.authority, until)) return;
    draft.authority = {
      certificate: made.certificate,
      key: secrets.seal(made.key, authorityPlace(environment, ctx)),
    };
  });
  return changed?.desired.authority;
}

function isGoodUntil({ certificate }: Pick<Authority, 'certificate'>, until: Date): boolean {
  return new X509Certificate(certificate).validToDate >= until;
}

function authorityPlace({ meta: { id } }: Environment, { tenant }: Context) {
  return { tenant, kind: 'environment', id, path: 'authority.key' };
}

/** Whether its engine speaks TLS; nothing where it cannot. */
export function encryptedCondition({ database }: Pick<World, 'database'>): ConditionInput[] {
  const type = 'Encrypted';
  const { tls, require_tls: isRequired, type: engine } = database.desired;
  const { encryption, word } = engines[engine];
  if (encryption === undefined) return [];
  if (tls === undefined)
    return [{ type, status: 'false', reason: 'NotYet', message: `${word} speaks TLS from its next start on` }];
  const what = isRequired === true ? 'takes no connection without TLS' : 'speaks TLS to clients that ask for it';
  const message = `${word} ${what}. Its certificate is for ${tls.names.join(', ')}`;
  return [{ type, status: 'true', reason: isRequired === true ? 'Required' : 'Offered', message }];
}
