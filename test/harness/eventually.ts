import { inspect } from 'node:util';
import { keys } from '../../store/keys.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import type { Mirror } from '../../store/mirror.ts';

type Found<T> = Exclude<T, undefined | null | false>;

/** `of`: the object whose state a failure shows. */
export interface EventuallyOptions {
  timeoutMs?: number;
  of?: { tenant: string; kind: KindName; id: string };
}

/**
 * Waits until `look` answers with something else than `undefined`, `null` or `false`, and answers with that. It looks
 * at once and again after each change of the mirror; what it throws means "not yet", so that it may expect things.
 *
 * @throws Error after `timeoutMs` (5 s), with the last answer or error and the object's conditions and events.
 */
export async function eventually<T>(
  mirror: Mirror,
  look: () => T | Promise<T>,
  { timeoutMs = 5000, of }: EventuallyOptions = {},
): Promise<Found<T>> {
  let changed = Promise.withResolvers<void>();
  const onChange = (): void => changed.resolve();
  const deadline = AbortSignal.timeout(timeoutMs);
  deadline.addEventListener('abort', onChange, { once: true });
  using subscriptions = new DisposableStack();
  subscriptions.defer(mirror.subscribe(onChange));
  subscriptions.defer(mirror.subscribeKeys(onChange));
  for (;;) {
    const isLast = deadline.aborted;
    changed = Promise.withResolvers();
    let last: { answer: T } | { error: unknown };
    try {
      const answer = await look();
      if (answer !== undefined && answer !== null && answer !== false) return answer as Found<T>; // just tested
      last = { answer };
    } catch (error) {
      last = { error };
    }
    if (isLast)
      throw new Error(describe(mirror, last, timeoutMs, of), { cause: 'error' in last ? last.error : undefined });
    await changed.promise;
  }
}

function describe(mirror: Mirror, last: object, timeoutMs: number, of: EventuallyOptions['of']): string {
  const lines = [`Not so within ${timeoutMs} ms, at revision ${mirror.applied}`, inspect(last, { depth: 8 })];
  if (of) {
    const it = mirror.tenant(of.tenant).get(of.kind, of.id);
    const events = mirror.key(keys.events(of.tenant, of.kind, of.id));
    lines.push(`${of.kind} ${of.id}: ${inspect(it, { depth: 8 })}`, `events: ${events?.value ?? 'none'}`);
  }
  return lines.join('\n');
}
