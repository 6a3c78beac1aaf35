import { defined } from '../../store/defined.ts';
import type { StoredCredential } from '../../store/kinds/git-credential.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import { plainCopy } from '../../store/plain-copy.ts';
import { badField } from '../ground/api-error.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { defineEndpoint } from '../endpoint/endpoint.ts';
import {
  GitCredential,
  GitCredentialCreate,
  gitCredentials,
  GitCredentialUpdate,
} from '../resources/git-credential.ts';
import { assign, given } from '../resources/object-fields.ts';
import { countLimits, requireRoom } from '../rights/count-limits.ts';
import { grantedTo } from '../rights/grants.ts';
import { keyRefusal } from '../ssh-keys/key-refusal.ts';
import { allowedFrom } from '../workloads/allowed-projects.ts';
import { requireUnused } from '../workloads/used-by.ts';
import { getEndpoint, listEndpoint, updateEndpoint } from './resource-endpoints.ts';

export const listGitCredentials = listEndpoint(
  gitCredentials,
  {
    path: '/settings/git-credentials',
    summary: 'What private repositories are read with, without secrets; users of projects see name, host and type',
  },
  (ctx) => grantedTo(ctx, ctx.view.list('git_credential')),
);

export const getGitCredential = getEndpoint(gitCredentials, {
  path: '/settings/git-credentials/:id',
  summary: 'A git credential with its public half, and the applications that use it',
});

export const createGitCredential = defineEndpoint({
  method: 'POST',
  path: '/settings/git-credentials',
  summary: 'Keep a token for https, or import or generate a deploy key for ssh, for repositories of one host',
  body: GitCredentialCreate,
  response: GitCredential,
  status: 201,
  heavy: true,
  handle: async (ctx, { body }) => {
    requireRoom(ctx.view.list('git_credential').length, countLimits.gitCredentialsPerTenant, {
      where: 'The tenant',
      what: 'git credentials',
      remedy: 'delete one that no application uses',
    });
    const id = ctx.random.id();
    const credential =
      body.type === 'token' ? newToken(ctx, id, body, undefined) : await newKey(ctx, id, body, undefined);
    const unit = ctx.repo.begin();
    const it = unit.create(
      'git_credential',
      id,
      {
        name: body.name,
        ...given({ description: body.description }),
        host: hostFor(body.type, body.host),
        credential,
        ...given({ allowed_projects: allowedFrom(ctx.view, body.allowed_projects) }),
      },
      defined({ labels: body.labels }),
    );
    return ctx.commit(unit, () => gitCredentials.answerOf(it, ctx.view));
  },
});

export const updateGitCredential = updateEndpoint(
  gitCredentials,
  {
    path: '/settings/git-credentials/:id',
    summary:
      'Change a git credential, also while applications use it: the next build reads with it. Another host needs its secret anew, and no application that uses it',
  },
  {
    body: GitCredentialUpdate,
    heavy: true,
    change(draft, body, { view }) {
      assign(draft, 'description', body.description);
      assign(draft, 'allowed_projects', allowedFrom(view, body.allowed_projects, draft.allowed_projects));
    },
    async check(ctx, unit, { it, body }) {
      const { type } = it.desired.credential;
      if (body.type !== undefined && body.type !== type)
        throw badField('type', 'fixed', `type is ${type} and never changes: make another git credential`);
      const host = body.host === undefined ? it.desired.host : hostFor(type, body.host);
      const isMoved = host !== it.desired.host;
      if (isMoved) {
        requireSecret(body, type);
        await requireUnused(ctx, unit, it, 'moved to another host');
      }
      const before = isMoved ? undefined : it.desired.credential;
      const credential =
        type === 'token'
          ? newToken(ctx, it.meta.id, body, before?.type === 'token' ? before : undefined)
          : await newKey(ctx, it.meta.id, body, before?.type === 'ssh' ? before : undefined);
      unit.change(it, (draft) => {
        draft.host = host;
        draft.credential = credential;
      });
    },
  },
);

export const deleteGitCredential = defineEndpoint({
  method: 'DELETE',
  path: '/settings/git-credentials/:id',
  summary: 'Delete a git credential that no application uses',
  on: ['git_credential', 'id'],
  handle: async (ctx, { it }) => {
    const unit = ctx.repo.begin();
    await requireUnused(ctx, unit, it, 'deleted');
    unit.requestDelete(it);
    return ctx.commit(unit, () => undefined);
  },
});

type Type = StoredCredential['type'];
type Secrets = Pick<
  GitCredentialUpdate,
  'username' | 'token' | 'ca_certificate' | 'generate' | 'private_key' | 'passphrase' | 'host_keys'
>;
type Context = Pick<RequestContext, 'tenant' | 'sealer' | 'keyPairs' | 'signal'>;

const usualPorts: Readonly<Record<Type, string>> = { token: ':443', ssh: ':22' };

/** Without the port that its protocol has anyway. */
function hostFor(type: Type, host: string): string {
  const usual = usualPorts[type];
  return host.endsWith(usual) && !host.endsWith(`:${usual}`) ? host.slice(0, -usual.length) : host;
}

/** A secret must never follow its credential to another host unseen. @throws ApiError BAD_REQUEST */
function requireSecret(sent: Secrets, type: Type): void {
  const { token, private_key, generate, host_keys } = given(sent);
  if (type === 'token' && token === undefined)
    throw badField('token', 'required', 'token is required with another host: it is never sent to a host unasked');
  if (type === 'ssh' && private_key === undefined && generate === undefined)
    throw badField('private_key', 'required', 'private_key or generate is required with another host');
  if (type === 'ssh' && (host_keys?.length ?? 0) === 0)
    throw badField('host_keys', 'required', 'host_keys is required with another host: it has other keys');
}

type Before<T extends Type> = DeepReadonly<Extract<StoredCredential, { type: T }>> | undefined;

/** @throws ApiError BAD_REQUEST */
function newToken(ctx: Context, id: string, sent: Secrets, before: Before<'token'>): StoredCredential {
  refuseForeign(sent, 'token', ['generate', 'private_key', 'passphrase', 'host_keys']);
  const token = sent.token === undefined || sent.token === null ? before?.token : sealed(ctx, id, 'token', sent.token);
  if (token === undefined) throw badField('token', 'required', 'token is required for type token');
  const authority = sent.ca_certificate === undefined ? before?.ca_certificate : sent.ca_certificate;
  return {
    type: 'token',
    username: sent.username ?? (sent.username === null ? undefined : before?.username) ?? 'x-access-token',
    token: { ...token },
    ...given({ ca_certificate: authority }),
  };
}

/** @throws ApiError BAD_REQUEST */
async function newKey(ctx: Context, id: string, sent: Secrets, before: Before<'ssh'>): Promise<StoredCredential> {
  refuseForeign(sent, 'ssh', ['username', 'token', 'ca_certificate']);
  const { generate, private_key: privateKey, passphrase, host_keys = before?.host_keys ?? [] } = given(sent);
  if (generate !== undefined && privateKey !== undefined)
    throw badField('private_key', 'several', 'Must have one of generate and private_key, not both');
  if (passphrase !== undefined && privateKey === undefined)
    throw badField('passphrase', 'without_key', 'passphrase must come with the private_key that it opens');
  if (host_keys.length === 0)
    throw badField(
      'host_keys',
      'required',
      'host_keys is required for type ssh: run ssh-keyscan HOST, compare what it prints with what the host publishes, and send the lines',
    );
  const hostKeys = { host_keys: [...new Set(host_keys)] };
  if (before !== undefined && generate === undefined && privateKey === undefined)
    return { ...plainCopy<StoredCredential & { type: 'ssh' }>(before), ...hostKeys };
  const order = privateKey === undefined ? { generate: generate ?? ('ed25519' as const) } : { privateKey, passphrase };
  const pair = await ctx.keyPairs.from(order, ctx.signal());
  if ('fault' in pair) throw keyRefusal(pair);
  const secret = sealed(ctx, id, 'private_key', pair.privateKey);
  return { type: 'ssh', algorithm: pair.algorithm, public_key: pair.publicKey, private_key: secret, ...hostKeys };
}

/** @throws ApiError BAD_REQUEST for a field of the other type, which would be dropped silently */
function refuseForeign(sent: Secrets, type: Type, names: readonly (keyof Secrets)[]): void {
  for (const name of names) {
    const value = sent[name];
    const isEmpty = value === undefined || value === null || (Array.isArray(value) && value.length === 0);
    if (!isEmpty) throw badField(name, 'unsupported', `${name} does not belong to a git credential of type ${type}`);
  }
}

function sealed({ sealer, tenant }: Context, id: string, field: 'token' | 'private_key', secret: string) {
  return sealer.seal(secret, { tenant, kind: 'git_credential', id, path: `credential.${field}` });
}
