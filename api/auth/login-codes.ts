import { normalizeName } from '../../store/keys.ts';
import type { Unit } from '../../store/repo.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { commit } from '../../store/unit.ts';
import { uuidv5 } from '../../store/uuid.ts';
import { tooMany } from '../api-error.ts';
import type { RequestContext } from '../context.ts';

type Context = Pick<RequestContext, 'tenant' | 'view' | 'repo' | 'clock' | 'random' | 'shortSecrets'>;

export const codeLifeMs = 10 * 60_000;
const pauseMs = 60_000;
const windowMs = 3_600_000;
const perWindow = 5;
const maxFailures = 5;
/** Addresses with a code, of all tenants' strangers too; the oldest makes room. */
const maxRecords = 10_000;
/** Of the ids of records. */
const namespace = 'b2a53c8e-3f0d-4a6b-9b57-0f6f7f1f1f6d';

/** The record of an address is always the same. */
export function codeIdOf(email: string): string {
  return uuidv5(namespace, normalizeName(email));
}

/**
 * Adds a new code for an address to the unit, in place of an earlier one. The same is written for every address.
 *
 * @throws ApiError TOO_MANY_REQUESTS within a minute of the last one, and for the sixth of an hour
 */
export function makeCode(ctx: Context, unit: Unit, email: string): string {
  const id = codeIdOf(email);
  const known = ctx.view.get('login_code', id);
  const now = ctx.clock.now().getTime();
  const earlier = (known?.desired.sent_at ?? []).filter((at) => now - Date.parse(at) < windowMs);
  const [first] = earlier;
  const last = earlier.at(-1);
  if (last !== undefined && now - Date.parse(last) < pauseMs)
    throw tooMany('A code was sent to this address within the last minute', seconds(Date.parse(last) + pauseMs - now));
  if (first !== undefined && earlier.length >= perWindow)
    throw tooMany('Too many codes were sent to this address', seconds(Date.parse(first) + windowMs - now));
  const code = sixDigits(ctx);
  const desired = {
    email,
    hash: ctx.shortSecrets.hash(ownerOf(ctx, id), code),
    expires_at: new Date(now + codeLifeMs).toISOString(),
    failures: 0,
    sent_at: [...earlier, new Date(now).toISOString()],
  };
  if (known !== undefined) unit.change(known, (draft) => void Object.assign(draft, desired));
  else {
    const all = ctx.view.list('login_code');
    const [oldest] = all;
    if (oldest !== undefined && all.length >= maxRecords) unit.requestDelete(oldest);
    unit.create('login_code', id, desired);
  }
  return code;
}

/** What a code turned out to be. */
export interface JudgedCode {
  isRight: boolean;
  /** Absent if none was sent lately. */
  record: ReadonlyResource<'login_code'> | undefined;
}

/** Whether that is the code of the address, now. It stays as it is until {@link useUp} or {@link countFailure}. */
export function judgeCode(ctx: Context, email: string, given: string): JudgedCode {
  const id = codeIdOf(email);
  const record = ctx.view.get('login_code', id);
  const { hash = '', expires_at = '' } = record?.desired ?? {};
  const matches = ctx.shortSecrets.matches(hash, ownerOf(ctx, id), given.replaceAll(/\s/g, ''));
  return { isRight: matches && Date.parse(expires_at) > ctx.clock.now().getTime(), record };
}

/** The unit then commits only if nobody else used the code. */
export function useUp(unit: Unit, { record }: JudgedCode): void {
  if (record !== undefined) unit.change(record, (draft) => void delete draft.hash);
}

/** Notes a wrong guess, the fifth of which takes the code away. @throws conflict, after which it is to be judged anew. */
export async function countFailure(ctx: Context, { record }: JudgedCode): Promise<void> {
  if (record?.desired.hash === undefined) return;
  const unit = ctx.repo.begin();
  unit.change(record, (draft) => {
    draft.failures += 1;
    if (draft.failures >= maxFailures) delete draft.hash;
  });
  await commit(unit);
}

function ownerOf({ tenant }: Context, id: string): string {
  return `${tenant}/login_code/${id}`;
}

function sixDigits({ random }: Context): string {
  for (;;) {
    const drawn = random.bytes(4).readUInt32BE();
    // what is above the last whole million would make some codes likelier than others
    if (drawn < 4_294_000_000) return String(drawn % 1_000_000).padStart(6, '0');
  }
}

function seconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000));
}
