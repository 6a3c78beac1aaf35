import { randomUUID, timingSafeEqual } from 'node:crypto';
import { hashJoinToken, parseJoinToken } from '../../agent-protocol/join-token.ts';
import type { Hello, Refusal } from '../../agent-protocol/control-session.ts';
import type { Clock } from '../../time/clock.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { Id } from '../../store/kinds/fields.ts';
import { isConflict } from '../../store/errors.ts';
import { keys } from '../../store/keys.ts';
import { provisioningOf } from '../../store/provisioning.ts';
import type { Repository } from '../../store/repo.ts';
import { isDeleting } from '../../store/resource.ts';
import type { Resource } from '../../store/resource.ts';
import type { Guard } from '../../store/store.ts';
import { limits } from './limits.ts';

export interface Identified {
  server: Resource<'server'>;
  /** Key that the agent must prove to hold. */
  publicKey: string;
  /** The key is to be registered with the join token once it is proven. */
  joins: boolean;
}

/** Identifies the sender of a hello: an agent with the registered key, or with a valid join token. Linearizable. */
export async function identify(
  hello: Hello,
  repo: Repository,
  clock: Clock,
): Promise<Identified | { refuse: Refusal }> {
  const server = Id.safeParse(hello.server_id).success ? await repo.get('server', hello.server_id) : undefined;
  if (server === undefined) return refuse('unknown', `There is no server ${hello.server_id}`, limits.refusal.unknownMs);
  const registered = server.desired.agent_public_key;
  const { join_token: token } = hello;
  if (token !== undefined && (isGood(token, server, clock) || (await provisions(token, server, repo, clock))))
    return { server, publicKey: hello.public_key, joins: true };
  if (registered === hello.public_key) return { server, publicKey: registered, joins: false };
  if (isDeleting(server))
    return refuse('retired', `Server ${hello.server_id} is being deleted`, limits.refusal.unknownMs);
  const message = hello.join_token === undefined ? noKey(registered) : 'The join token is used, expired or replaced';
  return refuse('unauthorized', message, limits.refusal.unauthorizedMs);
}

/** Uses the token up and registers the key, in one transaction. Returns a refusal if the token is no longer valid. */
export async function join(hello: Hello, repo: Repository, clock: Clock): Promise<{ refuse: Refusal } | undefined> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const publicKey = await register(hello, repo, clock);
      if (publicKey === hello.public_key) return undefined;
      return refuse('unauthorized', 'The join token was used by another agent', limits.refusal.unauthorizedMs);
    } catch (error) {
      // the operation that sent the token went on meanwhile
      if (!isConflict(error) || attempt === registrations) throw error;
    }
  }
}

/** Attempts to register a key while what its token is judged by changes. */
const registrations = 5;

/** Returns the key that is registered then. @throws conflict if the operation that sent the token changed meanwhile */
async function register(hello: Hello, repo: Repository, clock: Clock): Promise<string | undefined> {
  const { join_token: token, public_key: publicKey, server_id: id } = hello;
  const server = await repo.get('server', id);
  if (token === undefined || server === undefined) return undefined;
  const operation = isGood(token, server, clock) ? undefined : await provisions(token, server, repo, clock);
  const revision = operation?.meta.observedRevision;
  const guards: Guard[] =
    operation === undefined || revision === undefined
      ? []
      : [{ key: keys.observed(repo.tenant, 'operation', operation.meta.id), is: 'at', revision }];
  const registered = await repo.change(
    'server',
    id,
    (draft, it) => {
      const isOfOperation = guards.length > 0 && it.desired.agent_public_key === undefined && !isDeleting(it);
      if (isOfOperation || isGood(token, it, clock)) take(draft, publicKey);
    },
    { guards },
  );
  return registered?.desired.agent_public_key;
}

/**
 * The operation that provisions the server, if it has sent that token to the machine. Such a token is good until the
 * operation ends or has failed to install the agent by it, and only for a server without an agent: a token that leaks
 * later opens nothing.
 */
async function provisions(
  token: string,
  server: Resource<'server'>,
  repo: Repository,
  clock: Clock,
): Promise<Resource<'operation'> | undefined> {
  if (server.desired.agent_public_key !== undefined || isDeleting(server)) return undefined;
  if (parseJoinToken(token)?.serverId !== server.meta.id) return undefined;
  const operation = await repo.get('operation', provisioningOf(server.meta.id));
  if (operation?.observed === undefined || isDeleting(operation)) return undefined;
  const { desired, observed } = operation;
  if (observed.finished_at !== undefined || observed.asked !== desired.asked) return undefined;
  if (clock.now().getTime() >= Date.parse(desired.requested_at) + desired.deadline_seconds * 1000) return undefined;
  const wanted = observed.provisioning?.join_token_hash;
  return wanted !== undefined && isSame(hashJoinToken(token), wanted) ? operation : undefined;
}

/** Registers the key. Whichever token that was by: the other ones are void, as they would let another agent in. */
function take(draft: DesiredOf<'server'>, publicKey: string): void {
  if (draft.agent_public_key !== publicKey) {
    draft.agent_public_key = publicKey;
    draft.agent_id = randomUUID();
  }
  delete draft.join_token_hash;
  delete draft.join_token_expires_at;
}

function isGood(token: string, server: Resource<'server'>, clock: Clock): boolean {
  const { join_token_hash: hash, join_token_expires_at: expires } = server.desired;
  if (hash === undefined || expires === undefined || isDeleting(server)) return false;
  if (parseJoinToken(token)?.serverId !== server.meta.id) return false;
  return isSame(hashJoinToken(token), hash) && clock.now() < new Date(expires);
}

/** Compares in a time that does not depend on where they differ. */
function isSame(one: string, other: string): boolean {
  const [given, wanted] = [Buffer.from(one), Buffer.from(other)];
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}

function noKey(registered: string | undefined): string {
  return registered === undefined
    ? 'No agent has joined as this server yet: a join token is needed'
    : 'Another agent has joined as this server';
}

function refuse(code: Refusal['code'], message: string, retryAfterMs: number): { refuse: Refusal } {
  return { refuse: { code, message, retry_after_ms: retryAfterMs } };
}
