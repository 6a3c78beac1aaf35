import { defined } from '../../store/defined.ts';
import type { SshCredential } from '../../store/kinds/ssh-key.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { badField, conflicting } from '../ground/api-error.ts';
import { countLimits, requireRoom } from '../rights/count-limits.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { defineEndpoint } from '../endpoint/endpoint.ts';
import { assign, given } from '../resources/object-fields.ts';
import { SshKey, SshKeyCreate, sshKeys, SshKeyUpdate } from '../resources/ssh-key.ts';
import type { SecretFields } from '../resources/ssh-key.ts';
import { keyRefusal } from '../ssh-keys/key-refusal.ts';
import { holdPopulation } from '../workloads/population.ts';
import { getEndpoint, listEndpoint, updateEndpoint } from './resource-endpoints.ts';

/** Most servers that an error names; it gives the number of the others. */
const maxNamed = 20;

export const listSshKeys = listEndpoint(sshKeys, {
  path: '/settings/ssh-keys',
  summary: 'What the control plane logs in to servers with, without the secret halves',
});

export const getSshKey = getEndpoint(sshKeys, {
  path: '/settings/ssh-keys/:id',
  summary: 'An SSH key with its public half, and the servers that use it',
});

export const createSshKey = defineEndpoint({
  method: 'POST',
  path: '/settings/ssh-keys',
  summary: 'Generate or import an SSH key, or keep a password; without any of them an Ed25519 key is made',
  body: SshKeyCreate,
  response: SshKey,
  status: 201,
  heavy: true,
  handle: async (ctx, { body }) => {
    requireRoom(ctx.view.list('ssh_key').length, countLimits.sshKeysPerTenant, {
      where: 'The tenant',
      what: 'SSH keys',
      remedy: 'delete one that no server uses',
    });
    const id = ctx.random.id();
    const credential = (await credentialFrom(ctx, id, body)) ?? (await generated(ctx, id, 'ed25519'));
    const unit = ctx.repo.begin();
    const desired = { name: body.name, ...given({ description: body.description }), credential };
    const it = unit.create('ssh_key', id, desired, defined({ labels: body.labels }));
    return ctx.commit(unit, () => sshKeys.answerOf(it, ctx.view));
  },
});

export const updateSshKey = updateEndpoint(
  sshKeys,
  {
    path: '/settings/ssh-keys/:id',
    summary:
      'Change an SSH key; generate, private_key or password replaces its secret, also while servers use it: they need the new public half',
  },
  {
    body: SshKeyUpdate,
    heavy: true,
    change: (draft, body) => assign(draft, 'description', body.description),
    async check(ctx, unit, { it, body }) {
      const credential = await credentialFrom(ctx, it.meta.id, body);
      if (credential !== undefined) unit.change(it, (draft) => void (draft.credential = credential));
    },
  },
);

export const deleteSshKey = defineEndpoint({
  method: 'DELETE',
  path: '/settings/ssh-keys/:id',
  summary: 'Delete an SSH key that no server uses',
  on: ['ssh_key', 'id'],
  handle: async (ctx, { it }) => {
    const unit = ctx.repo.begin();
    await holdPopulation(ctx, unit, it);
    refuseUsed(ctx.view.by('server', 'ssh_key', it.meta.id));
    unit.requestDelete(it);
    return ctx.commit(unit, () => undefined);
  },
});

/** @throws ApiError CONFLICT with the servers, if there are any: they need another key first. */
function refuseUsed(servers: readonly ReadonlyResource<'server'>[]): void {
  if (servers.length === 0) return;
  const named = servers.slice(0, maxNamed);
  const more = servers.length > maxNamed ? ` and ${servers.length - maxNamed} more` : '';
  const names = named.map(({ desired }) => desired.name).join(', ');
  throw conflicting(
    `The SSH key is used by ${names}${more}: give these servers another ssh_key_id, or none, by setpoint set server NAME --ssh-key OTHER`,
    named.map(({ meta, desired }) => ({
      field: 'ssh_key_id',
      reason: 'in_use',
      message: `Server ${desired.name} (${meta.id})`,
    })),
  );
}

type Context = Pick<RequestContext, 'tenant' | 'sealer' | 'keyPairs' | 'signal'>;

/** What a body gives as the secret, sealed; `undefined` if it gives none. @throws ApiError BAD_REQUEST */
async function credentialFrom(ctx: Context, id: string, body: SecretFields): Promise<SshCredential | undefined> {
  const { generate, private_key: privateKey, passphrase, password } = given(body);
  const sent = Object.entries({ generate, private_key: privateKey, password }).filter(([, it]) => it !== undefined);
  const [, second] = sent;
  if (second !== undefined)
    throw badField(second[0], 'several', 'Must have one of generate, private_key and password, not several');
  if (passphrase !== undefined && privateKey === undefined)
    throw badField('passphrase', 'without_key', 'passphrase must come with the private_key that it opens');
  if (generate !== undefined) return generated(ctx, id, generate);
  if (privateKey !== undefined) return pairFrom(ctx, id, { privateKey, passphrase });
  if (password === undefined) return undefined;
  return { type: 'password', password: sealed(ctx, id, 'password', password) };
}

function generated(ctx: Context, id: string, type: 'ed25519' | 'rsa'): Promise<SshCredential> {
  return pairFrom(ctx, id, { generate: type });
}

async function pairFrom(
  ctx: Context,
  id: string,
  order: Parameters<Context['keyPairs']['from']>[0],
): Promise<SshCredential> {
  const pair = await ctx.keyPairs.from(order, ctx.signal());
  if ('fault' in pair) throw keyRefusal(pair);
  const { algorithm, publicKey, privateKey } = pair;
  const secret = sealed(ctx, id, 'private_key', privateKey);
  return { type: 'key', algorithm, public_key: publicKey, private_key: secret };
}

function sealed({ sealer, tenant }: Context, id: string, field: 'private_key' | 'password', secret: string) {
  return sealer.seal(secret, { tenant, kind: 'ssh_key', id, path: `credential.${field}` });
}
