import { randomUUID, timingSafeEqual } from 'node:crypto';
import { hashJoinToken, parseJoinToken } from '../../agent-protocol/join-token.ts';
import type { Hello, Refusal } from '../../agent-protocol/control-session.ts';
import type { Clock } from '../../time/clock.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { Id } from '../../store/kinds/fields.ts';
import type { Repository } from '../../store/repo.ts';
import { isDeleting } from '../../store/resource.ts';
import type { Resource } from '../../store/resource.ts';
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
  if (hello.join_token !== undefined && isGood(hello.join_token, server, clock))
    return { server, publicKey: hello.public_key, joins: true };
  if (registered === hello.public_key) return { server, publicKey: registered, joins: false };
  if (isDeleting(server))
    return refuse('retired', `Server ${hello.server_id} is being deleted`, limits.refusal.unknownMs);
  const message = hello.join_token === undefined ? noKey(registered) : 'The join token is used, expired or replaced';
  return refuse('unauthorized', message, limits.refusal.unauthorizedMs);
}

/** Uses the token up and registers the key, in one transaction. Returns a refusal if the token is no longer valid. */
export async function join(hello: Hello, repo: Repository, clock: Clock): Promise<{ refuse: Refusal } | undefined> {
  const registered = await repo.change('server', hello.server_id, (draft, it) => {
    if (hello.join_token !== undefined && isGood(hello.join_token, it, clock)) register(draft, hello.public_key);
  });
  if (registered?.desired.agent_public_key === hello.public_key) return undefined;
  return refuse('unauthorized', 'The join token was used by another agent', limits.refusal.unauthorizedMs);
}

function register(draft: DesiredOf<'server'>, publicKey: string): void {
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
  const [given, wanted] = [Buffer.from(hashJoinToken(token)), Buffer.from(hash)];
  return given.length === wanted.length && timingSafeEqual(given, wanted) && clock.now() < new Date(expires);
}

function noKey(registered: string | undefined): string {
  return registered === undefined
    ? 'No agent has joined as this server yet: a join token is needed'
    : 'Another agent has joined as this server';
}

function refuse(code: Refusal['code'], message: string, retryAfterMs: number): { refuse: Refusal } {
  return { refuse: { code, message, retry_after_ms: retryAfterMs } };
}
