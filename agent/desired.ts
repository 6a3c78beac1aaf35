import { z } from 'zod';
import { WireAssignment } from '../agent-protocol/assignment.ts';
import { Position } from '../agent-protocol/messages.ts';
import { Journal } from './journal.ts';

/** An assignment that was desired once. Kept so that its containers go away and an outdated copy of it is refused. */
const Tombstone = z.object({
  generation: z.int(),
  grace_seconds: z.int(),
  /** The control plane knows that nothing of it is left. */
  acknowledged: z.boolean(),
});
export type Tombstone = z.infer<typeof Tombstone>;

const Whole = z.object({
  type: z.literal('whole'),
  position: Position,
  items: z.array(WireAssignment),
  tombstones: z.array(z.tuple([z.string(), Tombstone])),
});
const Delta = z.object({
  type: z.literal('delta'),
  to: z.int(),
  put: z.array(WireAssignment),
  drop: z.array(z.string()),
});
const Settled = z.object({ type: z.literal('settled'), ids: z.array(z.string()) });
const JournalRecord = z.discriminatedUnion('type', [Whole, Delta, Settled]);
type JournalRecord = z.infer<typeof JournalRecord>;

const keptTombstones = 1000;
const rewriteSlackBytes = 256 * 1024;

interface State {
  position: Position;
  items: Map<string, WireAssignment>;
  tombstones: Map<string, Tombstone>;
}

/**
 * The desired set, as the control plane last told it, on disk. Every change resolves after it is durable and before it
 * is visible; a crash leaves the state before or after a change. An unreadable file means that there is no set, which
 * is not an empty one: nothing may be concluded from it.
 */
export class DesiredSet {
  readonly #journal: Journal;
  #state: State | undefined;
  #confirmed = false;
  #rewriteAt: number;
  #last: Promise<unknown> = Promise.resolve();

  private constructor(journal: Journal, state: State | undefined) {
    this.#journal = journal;
    this.#state = state;
    this.#rewriteAt = 2 * journal.bytes + rewriteSlackBytes;
  }

  static async open(path: string, key: Buffer): Promise<DesiredSet> {
    const { journal, records } = await Journal.open(path, key);
    return new DesiredSet(journal, records === undefined ? undefined : replay(records));
  }

  position(): Position | undefined {
    return this.#state?.position;
  }

  /** The control plane has told, since this process started, what is desired: what is not in the set may be removed. */
  get confirmed(): boolean {
    return this.#confirmed;
  }

  get(id: string): WireAssignment | undefined {
    return this.#state?.items.get(id);
  }

  items(): IterableIterator<WireAssignment> {
    return (this.#state?.items ?? new Map<string, WireAssignment>()).values();
  }

  tombstone(id: string): Tombstone | undefined {
    return this.#state?.tombstones.get(id);
  }

  /** Assignments that are no longer desired and of whose end the control plane does not know. */
  unsettled(): string[] {
    return [...(this.#state?.tombstones ?? [])].filter(([, it]) => !it.acknowledged).map(([id]) => id);
  }

  /**
   * Replaces the set. Items of a lower generation than the known ones are left out of consideration, unless history
   * itself went back (another incarnation, a lower revision). Resolves with the ids that changed.
   */
  snapshot(position: Position, items: readonly WireAssignment[]): Promise<Set<string>> {
    return this.#change(async () => {
      const before = this.#state;
      const continues =
        before?.position.incarnation === position.incarnation && position.revision >= before.position.revision;
      const kept = new Map(
        items.map((item) => {
          const known = before?.items.get(item.id);
          return [item.id, continues && known !== undefined && known.generation > item.generation ? known : item];
        }),
      );
      const tombstones = new Map(before?.tombstones);
      for (const item of before?.items.values() ?? []) if (!kept.has(item.id)) bury(tombstones, item);
      for (const id of kept.keys()) tombstones.delete(id);
      const next = { position, items: kept, tombstones: bounded(tombstones) };
      await this.#rewrite(next);
      const changed = difference(before, next);
      this.#state = next;
      this.#confirmed = true;
      return changed;
    });
  }

  /**
   * Changes the set. Items of a lower generation than the known ones are ignored. Resolves with the ids that changed.
   * @throws Error if there is no set yet
   */
  delta(to: number, put: readonly WireAssignment[], drop: readonly string[]): Promise<Set<string>> {
    return this.#change(async () => {
      const before = this.#state;
      if (before === undefined) throw new Error('Cannot apply a delta as there is no desired set');
      const record = { type: 'delta' as const, to, put: [...put], drop: [...drop] };
      const next = applyDelta(before, record);
      await this.#append(next, record);
      const changed = difference(before, next);
      this.#state = next;
      this.#confirmed = true;
      return changed;
    });
  }

  /** The control plane knows that nothing is left of these; they need not be told again. */
  settle(ids: readonly string[]): Promise<void> {
    return this.#change(async () => {
      const before = this.#state;
      const news = ids.filter((id) => before?.tombstones.get(id)?.acknowledged === false);
      if (before === undefined || news.length === 0) return;
      const record = { type: 'settled' as const, ids: news };
      const next = applySettled(before, record);
      await this.#append(next, record);
      this.#state = next;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#last;
    await this.#journal[Symbol.asyncDispose]();
  }

  async #append(next: State, record: JournalRecord): Promise<void> {
    if (this.#journal.bytes > this.#rewriteAt) await this.#rewrite(next);
    else await this.#journal.append(encode(record));
  }

  async #rewrite(state: State): Promise<void> {
    await this.#journal.rewrite([
      encode({
        type: 'whole',
        position: state.position,
        items: [...state.items.values()],
        tombstones: [...state.tombstones],
      }),
    ]);
    this.#rewriteAt = 2 * this.#journal.bytes + rewriteSlackBytes;
  }

  #change<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => undefined);
    return done;
  }
}

function encode(record: JournalRecord): Buffer {
  return Buffer.from(JSON.stringify(record));
}

function replay(raw: readonly Buffer[]): State | undefined {
  let state: State | undefined;
  for (const buffer of raw) {
    const parsed = JournalRecord.safeParse(JSON.parse(buffer.toString()));
    if (!parsed.success) return undefined;
    const record = parsed.data;
    switch (record.type) {
      case 'whole':
        state = {
          position: record.position,
          items: new Map(record.items.map((item) => [item.id, item])),
          tombstones: new Map(record.tombstones),
        };
        break;
      case 'delta':
        if (state === undefined) return undefined;
        state = applyDelta(state, record);
        break;
      case 'settled':
        if (state === undefined) return undefined;
        state = applySettled(state, record);
        break;
    }
  }
  return state;
}

function applyDelta(state: State, record: z.infer<typeof Delta>): State {
  const items = new Map(state.items);
  const tombstones = new Map(state.tombstones);
  for (const id of record.drop) {
    const item = items.get(id);
    if (item === undefined) continue;
    items.delete(id);
    bury(tombstones, item);
  }
  for (const item of record.put) {
    const floor = items.get(item.id)?.generation ?? tombstones.get(item.id)?.generation ?? 0;
    if (item.generation < floor) continue;
    items.set(item.id, item);
    tombstones.delete(item.id);
  }
  return { position: { ...state.position, revision: record.to }, items, tombstones: bounded(tombstones) };
}

function applySettled(state: State, record: z.infer<typeof Settled>): State {
  const tombstones = new Map(state.tombstones);
  for (const id of record.ids) {
    const known = tombstones.get(id);
    if (known !== undefined) tombstones.set(id, { ...known, acknowledged: true });
  }
  return { ...state, tombstones: bounded(tombstones) };
}

function bury(tombstones: Map<string, Tombstone>, item: WireAssignment): void {
  const grace = item.spec.type === 'service' ? item.spec.grace_seconds : 0;
  tombstones.set(item.id, { generation: item.generation, grace_seconds: grace, acknowledged: false });
}

/** Forgets the oldest of those that everybody knows to be gone. */
function bounded(tombstones: Map<string, Tombstone>): Map<string, Tombstone> {
  let surplus = tombstones.size - keptTombstones;
  if (surplus <= 0) return tombstones;
  return new Map([...tombstones].filter(([, it]) => !(it.acknowledged && surplus-- > 0)));
}

function difference(before: State | undefined, after: State): Set<string> {
  const changed = new Set<string>();
  for (const [id, item] of after.items) {
    const known = before?.items.get(id);
    if (known === undefined || JSON.stringify(known) !== JSON.stringify(item)) changed.add(id);
  }
  for (const id of before?.items.keys() ?? []) if (!after.items.has(id)) changed.add(id);
  return changed;
}
