import type { Clock } from '../../time/clock.ts';
import { parseKey } from '../../store/keys.ts';
import type { KeyChange, Mirror, ObjectChange, TenantView } from '../../store/mirror.ts';
import { isKind } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { isOpenTenant } from '../../store/tenants.ts';
import { ApiError } from '../ground/api-error.ts';
import { asOfNow, isStillGood } from '../auth/authenticate.ts';
import type { Principal } from '../auth/principal.ts';
import { authorize } from '../rights/authorize.ts';
import type { Place } from '../rights/authorize.ts';
import type { Permission } from '../rights/permissions.ts';
import type { Channel } from './channel.ts';
import { closeCode } from './close-code.ts';
import type { CloseCode } from './close-code.ts';

/** One open stream, and what the right of its reader depends on. */
export interface Seat {
  tenant: string;
  view: TenantView;
  principal: Principal;
  permission: Permission;
  /** Ids of the streamed object and of its project. */
  about: ReadonlySet<string>;
  /** The place at which the right is judged now; `undefined` if the streamed object is gone. */
  place(): Place | undefined;
  channel: Channel;
}

const checkEveryMs = 60_000;
const longestTimerMs = 24 * 3_600_000;

/**
 * The readers of all open streams. Their rights are checked every minute, and whenever something that they depend on
 * changes or expires: a stream ends within moments of the right to it.
 */
export class Audience implements Disposable {
  readonly #mirror: Pick<Mirror, 'key'>;
  readonly #clock: Clock;
  readonly #seats = new Set<Seat>();
  readonly #perUser = new Map<string, number>();
  readonly #unsubscribe: () => void;
  #cancel: () => void = () => undefined;

  constructor(mirror: Pick<Mirror, 'subscribe' | 'subscribeKeys' | 'key'>, clock: Clock) {
    this.#mirror = mirror;
    this.#clock = clock;
    const subscriptions = [
      mirror.subscribe((change) => this.#changed(change)),
      mirror.subscribeKeys((change) => this.#keyChanged(change)),
    ];
    this.#unsubscribe = () => {
      for (const end of subscriptions) end();
    };
    this.#checkLater();
  }

  get size(): number {
    return this.#seats.size;
  }

  /** Open streams of the user, with any credential. */
  countOf(tenant: string, principal: Principal): number {
    return this.#perUser.get(nameOf(tenant, principal)) ?? 0;
  }

  /** Checks the rights of the seat until its channel is closed. */
  add(seat: Seat): void {
    const name = nameOf(seat.tenant, seat.principal);
    this.#seats.add(seat);
    this.#perUser.set(name, (this.#perUser.get(name) ?? 0) + 1);
    const leave = (): void => {
      if (!this.#seats.delete(seat)) return;
      const left = (this.#perUser.get(name) ?? 1) - 1;
      if (left === 0) this.#perUser.delete(name);
      else this.#perUser.set(name, left);
    };
    seat.channel.signal.addEventListener('abort', leave, { once: true });
    if (seat.channel.signal.aborted) leave();
    else this.#checkWhenOver(seat);
    this.#checkTenant(seat);
  }

  /** Judges a seat now, since what its right depends on was changed. */
  judge(seat: Seat): void {
    if (this.#seats.has(seat)) this.#check(seat);
  }

  /** Closes all streams with `restart`: the clients connect to another replica. */
  closeAll(): void {
    for (const { channel } of this.#seats) channel.close(closeCode.restart, 'restart');
  }

  [Symbol.dispose](): void {
    this.#cancel();
    this.#unsubscribe();
    this.closeAll();
  }

  #checkLater(): void {
    this.#cancel = this.#clock.timer(checkEveryMs, () => {
      for (const seat of this.#seats) this.#check(seat);
      this.#checkLater();
    });
  }

  /** A credential expires without a change in the mirror, so that it needs a timer. */
  #checkWhenOver(seat: Seat): void {
    const { expires_at } = proofOf(seat.principal).desired;
    if (expires_at === undefined) return;
    const left = Math.max(1, Date.parse(expires_at) - this.#clock.now().getTime());
    const cancel = this.#clock.timer(Math.min(left, longestTimerMs), () => {
      seat.channel.signal.removeEventListener('abort', cancel);
      this.#check(seat);
      if (this.#seats.has(seat)) this.#checkWhenOver(seat);
    });
    seat.channel.signal.addEventListener('abort', cancel, { once: true });
  }

  #changed(change: ObjectChange): void {
    if (change.part !== 'desired') return;
    for (const seat of this.#seats) if (seat.tenant === change.tenant && restsOn(seat, change)) this.#check(seat);
  }

  #keyChanged({ key }: KeyChange): void {
    const meaning = parseKey(key);
    if (meaning?.area !== 'tenant') return;
    for (const seat of this.#seats) if (seat.tenant === meaning.tenant) this.#checkTenant(seat);
  }

  /** The deletion of the tenant may have begun while the stream was being opened. */
  #checkTenant({ tenant, channel }: Seat): void {
    if (!isOpenTenant(this.#mirror, tenant)) channel.close(closeCode.gone, 'tenant is gone');
  }

  #check(seat: Seat): void {
    const fault = faultOf(seat, this.#clock);
    if (fault !== undefined) seat.channel.close(...fault);
  }
}

function nameOf(tenant: string, principal: Principal): string {
  return `${tenant} ${principal.user.meta.id}`;
}

function proofOf({ by }: Principal): ReadonlyResource<'session'> | ReadonlyResource<'service_key'> {
  return by.type === 'session' ? by.session : by.key;
}

function restsOn(
  { about, permission, principal: { user, by } }: Seat,
  { kind, id, before, after }: ObjectChange,
): boolean {
  switch (kind) {
    case 'user':
      return user.meta.id === id;
    case 'member':
      return userOf(after ?? before) === user.meta.id;
    case 'project':
      return about.has(id) || ownerOf(before) === user.meta.id;
    case 'session':
      return by.type === 'session' && by.session.meta.id === id;
    case 'service_key':
      // a key that another key made ends with any of its ancestors
      return by.type === 'key' && (by.key.meta.id === id || by.key.desired.parent_id !== undefined);
    case 'settings':
      return permission.isSwitched;
    default:
      return about.has(id);
  }
}

/** The user and the project of a member never change. */
function userOf(member: ReadonlyResource | undefined): string | undefined {
  return isKind(member, 'member') ? member.desired.user_id : undefined;
}

/** The owner of a project who gives it away may lose what only members of a project see. */
function ownerOf(project: ReadonlyResource | undefined): string | undefined {
  return isKind(project, 'project') ? project.desired.owner_id : undefined;
}

function faultOf(seat: Seat, clock: Clock): [CloseCode, string] | undefined {
  const { principal, view, permission } = seat;
  if (!isStillGood(principal, view, clock)) return [closeCode.credential, 'credential is no longer good'];
  const place = seat.place();
  if (place === undefined) return [closeCode.gone, 'gone'];
  try {
    authorize(asOfNow(principal, view), permission, place);
    return undefined;
  } catch (error) {
    if (error instanceof ApiError) return [closeCode.permission, 'no longer allowed'];
    throw error;
  }
}
