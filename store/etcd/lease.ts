import type { ILeaseKeepAliveResponse } from 'etcd3';
import type { Clock } from '../../time/clock.ts';
import { unavailable } from '../errors.ts';
import type { Lease, LeaseId } from '../store.ts';
import type { Endpoints } from './endpoints.ts';
import { meansLeaseGone, toStoreError } from './failure.ts';

/** Share of the time to live after which an unrenewed lease counts as lost by its holder. */
const lostAfter = 0.85;
const retryMs = 200;

/** What a lease uses of the store that it belongs to. */
export interface LeaseContext {
  endpoints: Endpoints;
  clock: Clock;
  /** Aborts when the store closes. */
  closed: AbortSignal;
}

/** Grants a lease and renews it every third of its time to live. etcd gets the time rounded up to whole seconds. */
export async function grantLease({ endpoints, clock, closed }: LeaseContext, ttlMs: number): Promise<Lease> {
  const sentAt = clock.monotonic();
  const id = await grant(endpoints, ttlMs);
  const abort = new AbortController();
  let deadline = sentAt + ttlMs * lostAfter;
  let cancelRenewal = (): void => undefined;

  const lose = (why: string): void => {
    cancelRenewal();
    cancelLoss();
    closed.removeEventListener('abort', loseByClose);
    abort.abort(unavailable(why));
  };
  const loseByClose = (): void => lose(`the store of lease ${id} was closed`);
  const loseByTime = (): void => lose(`lease ${id} was not renewed within ${ttlMs} ms`);
  let cancelLoss = clock.timer(deadline - clock.monotonic(), loseByTime);
  const renewIn = (ms: number): void => {
    cancelRenewal = clock.timer(ms, () => void renew());
  };

  const renew = async (): Promise<void> => {
    const renewalSentAt = clock.monotonic();
    const isAlive = await keepAlive(endpoints, id, ttlMs / 3).catch(() => undefined);
    const now = clock.monotonic();
    if (abort.signal.aborted) return;
    if (isAlive === false) lose(`lease ${id} expired at etcd`);
    else if (now >= deadline) loseByTime();
    else if (isAlive === undefined) renewIn(retryMs);
    else {
      deadline = renewalSentAt + ttlMs * lostAfter;
      cancelLoss();
      cancelLoss = clock.timer(deadline - now, loseByTime);
      renewIn(Math.max(0, renewalSentAt + ttlMs / 3 - now));
    }
  };

  if (closed.aborted) loseByClose();
  else {
    closed.addEventListener('abort', loseByClose, { once: true });
    renewIn(Math.max(0, sentAt + ttlMs / 3 - clock.monotonic()));
  }

  return {
    id,
    lost: abort.signal,
    revoke: async () => {
      lose(`lease ${id} was revoked`);
      await revoke(endpoints, id);
    },
  };
}

async function grant(endpoints: Endpoints, ttlMs: number): Promise<LeaseId> {
  try {
    const granted = await endpoints.repeatable(({ client, options }) =>
      client.leaseClient.leaseGrant({ TTL: Math.ceil(ttlMs / 1000) }, options),
    );
    return granted.ID as LeaseId; // minted by etcd
  } catch (error) {
    throw toStoreError(error, 'grant a lease');
  }
}

async function revoke(endpoints: Endpoints, id: LeaseId): Promise<void> {
  try {
    await endpoints.repeatable(({ client, options }) => client.leaseClient.leaseRevoke({ ID: id }, options));
  } catch (error) {
    if (!meansLeaseGone(error)) throw toStoreError(error, `revoke lease ${id}`);
  }
}

/** One renewal on a stream of its own. @returns false if the lease is gone. */
async function keepAlive(endpoints: Endpoints, id: LeaseId, timeoutMs: number): Promise<boolean> {
  const { stream, failed } = await endpoints.stream((client) =>
    client.leaseClient.leaseKeepAlive({ deadline: Date.now() + timeoutMs }),
  );
  try {
    const answer = await new Promise<ILeaseKeepAliveResponse>((resolve, reject) => {
      stream.on('data', resolve);
      stream.on('error', reject);
      stream.on('end', () => reject(unavailable(`etcd did not answer to the renewal of lease ${id}`)));
      stream.write({ ID: id });
    });
    return Number(answer.TTL) > 0;
  } catch (error) {
    failed();
    throw error;
  } finally {
    stream.end();
  }
}
