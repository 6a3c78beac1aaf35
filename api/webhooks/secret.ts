import type { ReadonlyResource } from '../../store/resource.ts';
import type { RequestContext } from '../endpoint/context.ts';

type Context = Pick<RequestContext, 'tenant' | 'sealer' | 'unsealer' | 'random'>;

const secretBytes = 32;

/** The secret that a body gives, or a new one. */
export function secretFrom({ random }: Context, sent: string | undefined): string {
  return sent ?? random.bytes(secretBytes).toString('hex');
}

export function sealSecret({ sealer, tenant }: Context, id: string, secret: string) {
  return sealer.seal(secret, { tenant, kind: 'git_webhook', id, path: 'secret' });
}

export function openSecret({ unsealer, tenant }: Context, { meta, desired }: ReadonlyResource<'git_webhook'>): string {
  return unsealer.unseal(desired.secret, { tenant, kind: 'git_webhook', id: meta.id, path: 'secret' });
}
