import { z } from 'zod';
import type { WireConfiguration, WireFunction, WireService } from '../../agent-protocol/assignment.ts';
import type { WireAssignment } from '../../agent-protocol/assignment.ts';
import { understand, WireItem } from '../../agent-protocol/assignment.ts';
import { OutdatedItem } from '../../agent-protocol/desired-chain.ts';
import { Position } from '../../agent-protocol/messages.ts';
import { Configurations } from './configurations.ts';
import { Journal } from '../disk/journal.ts';

/**
 * An assignment that is no longer desired. It is kept to remove its containers and to refuse an outdated copy of it.
 */
const Tombstone = z.object({
  generation: z.int(),
  grace_seconds: z.int(),
  drain_seconds: z.int().default(0),
  /** The control plane has acknowledged that nothing of it is left. */
  acknowledged: z.boolean(),
});
export type Tombstone = z.infer<typeof Tombstone>;

const Whole = z.object({
  type: z.literal('whole'),
  position: Position,
  items: z.array(WireItem),
  tombstones: z.array(z.tuple([z.string(), Tombstone])),
});
const Delta = z.object({
  type: z.literal('delta'),
  to: z.int(),
  put: z.array(WireItem),
  drop: z.array(z.string()),
});
const Settled = z.object({ type: z.literal('settled'), ids: z.array(z.string()) });
const JournalRecord = z.discriminatedUnion('type', [Whole, Delta, Settled]);
type JournalRecord = z.infer<typeof JournalRecord>;

/** The configuration of a service that refers to none. */
const blank = { env: {} };

const keptTombstones = 1000;
/** Time to end for containers of an item that this release does not understand. */
const unknownGraceSeconds = 10;
const rewriteSlackBytes = 256 * 1024;

interface State {
  position: Position;
  items: Map<string, WireItem>;
  tombstones: Map<string, Tombstone>;
}

/**
 * The last desired set from the control plane, on disk. A change becomes visible once it is durable; a crash leaves the
 * state before or after a change. An unreadable file means that there is no set, which differs from an empty set:
 * nothing may be removed because of it.
 *
 * Configurations are in a folder of their own. They are written before the set that refers to them, and removed when no
 * item refers to them any more. An item whose configuration is missing has none: the agent can make no container for
 * it, and everything else goes on.
 */
export class DesiredSet {
  readonly #journal: Journal;
  readonly #configurations: Configurations;
  #state: State | undefined;
  /** Items completed with their configurations. Calls return the same object while the item is the same. */
  readonly #complete = new WeakMap<WireItem, WireAssignment>();
  #confirmed = false;
  #rewriteAt: number;
  #last: Promise<unknown> = Promise.resolve();

  private constructor(journal: Journal, configurations: Configurations, state: State | undefined) {
    this.#journal = journal;
    this.#configurations = configurations;
    this.#state = state;
    this.#rewriteAt = 2 * journal.bytes + rewriteSlackBytes;
  }

  static async open(path: string, key: Buffer): Promise<DesiredSet> {
    const configurations = await Configurations.open(`${path}-configurations`, key);
    const { journal, records } = await Journal.open(path, key);
    const state = records === undefined ? undefined : replay(records);
    if (state !== undefined) await configurations.retain(referred(state));
    return new DesiredSet(journal, configurations, state);
  }

  position(): Position | undefined {
    return this.#state?.position;
  }

  /** True once the control plane has sent a set since this process started: what is not in it may be removed. */
  get confirmed(): boolean {
    return this.#confirmed;
  }

  /** Returns the item if this release understands it, with its configuration if the agent has that. */
  get(id: string): WireAssignment | undefined {
    const item = this.#state?.items.get(id);
    return item && this.#completed(item);
  }

  /** Returns the item if this release does not understand it. The agent leaves its containers as they are. */
  unknown(id: string): WireItem | undefined {
    const item = this.#state?.items.get(id);
    return item !== undefined && understand(item) === undefined ? item : undefined;
  }

  /** True if the assignment is desired. */
  has(id: string): boolean {
    return this.#state?.items.has(id) ?? false;
  }

  /** All desired items as they were sent. */
  all(): IterableIterator<WireItem> {
    return (this.#state?.items ?? new Map<string, WireItem>()).values();
  }

  /** The desired items that this release understands, without the variables of their configurations. */
  *understood(): Generator<WireAssignment> {
    for (const item of this.all()) {
      const known = understand(item);
      if (known !== undefined) yield known;
    }
  }

  tombstone(id: string): Tombstone | undefined {
    return this.#state?.tombstones.get(id);
  }

  /** Ids that are no longer desired and whose removal the control plane has not acknowledged. */
  unsettled(): string[] {
    return [...(this.#state?.tombstones ?? [])].filter(([, it]) => !it.acknowledged).map(([id]) => id);
  }

  /**
   * Replaces the set; known items that `keep` lists and `items` lacks stay as they are. An item of a lower generation
   * than the known one is ignored, unless the position is of another history (another incarnation, or a lower
   * revision). Earlier generations mean nothing in another history, so that known items and tombstones then count as
   * generation 0. Resolves with the ids that changed.
   * @throws Error, and nothing changes, if the configuration of an item is neither given nor on disk
   */
  snapshot(
    position: Position,
    items: readonly WireItem[],
    keep: readonly string[] = [],
    configurations: readonly WireConfiguration[] = [],
  ): Promise<Set<string>> {
    return this.#change(async () => {
      const before = this.#state;
      this.#expectConfigurations(items, configurations);
      const continues =
        before?.position.incarnation === position.incarnation && position.revision >= before.position.revision;
      const known = continues ? before : before && withoutGenerations(before);
      const wanted = new Map<string, WireItem>();
      for (const id of keep) {
        const item = known?.items.get(id);
        if (item !== undefined) wanted.set(id, item);
      }
      for (const item of items) {
        const own = known?.items.get(item.id);
        wanted.set(item.id, own !== undefined && own.generation > item.generation ? own : item);
      }
      const tombstones = new Map(known?.tombstones);
      for (const item of known?.items.values() ?? []) if (!wanted.has(item.id)) bury(tombstones, item);
      for (const id of wanted.keys()) tombstones.delete(id);
      const next = { position, items: wanted, tombstones: bounded(tombstones) };
      const waiting = this.#waiting();
      await this.#configurations.add(configurations);
      await this.#rewrite(next);
      return this.#become(next, waiting);
    });
  }

  /**
   * Changes the set. Resolves with the ids that changed.
   * @throws Error if there is no set yet, or as {@link snapshot} does; OutdatedItem, and nothing changes, if an item
   * has a lower generation than the known one
   */
  delta(
    to: number,
    put: readonly WireItem[],
    drop: readonly string[],
    configurations: readonly WireConfiguration[] = [],
  ): Promise<Set<string>> {
    return this.#change(async () => {
      const before = this.#state;
      if (before === undefined) throw new Error('Cannot apply a delta as there is no desired set');
      this.#expectConfigurations(put, configurations);
      const record = { type: 'delta' as const, to, put: [...put], drop: [...drop] };
      for (const item of put) if (item.generation < floorOf(before, item.id)) throw new OutdatedItem(item.id);
      const next = applyDelta(before, record);
      const waiting = this.#waiting();
      await this.#configurations.add(configurations);
      await this.#append(next, record);
      // A configuration may come with one delta and the first item that refers to it with the next.
      return this.#become(next, waiting, configurations);
    });
  }

  /** The control plane acknowledged that nothing is left of these: they need not be reported again. */
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

  #expectConfigurations(items: readonly WireItem[], given: readonly WireConfiguration[]): void {
    const ids = new Set(given.map(({ id }) => id));
    for (const item of items) {
      const known = understand(item);
      if (known === undefined || !needsConfiguration(known)) continue;
      const { config } = known.spec;
      if (config !== undefined && !ids.has(config) && this.#configurations.get(config) === undefined)
        throw new Error(`Configuration ${config} of assignment ${item.id} did not come with it`);
    }
  }

  async #become(
    next: State,
    waiting: readonly string[],
    awaited: readonly WireConfiguration[] = [],
  ): Promise<Set<string>> {
    const before = this.#state;
    const changed = difference(before, next);
    for (const id of waiting) changed.add(id);
    this.#state = next;
    this.#confirmed = true;
    await this.#configurations.retain(new Set([...referred(next), ...awaited.map(({ id }) => id)]));
    return changed;
  }

  /** Ids of items whose configuration is missing: it may come with any change. */
  #waiting(): string[] {
    return [...this.all()]
      .map((item) => this.#completed(item))
      .filter((item) => item !== undefined && needsConfiguration(item))
      .map(({ id }) => id);
  }

  #completed(item: WireItem): WireAssignment | undefined {
    const complete = this.#complete.get(item);
    if (complete !== undefined) return complete;
    const known = understand(item);
    if (known === undefined || !isConfigured(known)) return known;
    const { spec } = known;
    if (spec.configuration !== undefined) return known;
    const configuration = spec.config === undefined ? blank : this.#configurations.get(spec.config);
    if (configuration === undefined || known.run === 'stopped') return known;
    const made = { ...known, spec: { ...spec, configuration } };
    this.#complete.set(item, made);
    return made;
  }

  async #append(next: State, record: JournalRecord): Promise<void> {
    if (this.#journal.needsRewrite || this.#journal.bytes > this.#rewriteAt) await this.#rewrite(next);
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
    // Earlier releases wrote outdated items into the journal and then ignored them.
    if (item.generation < floorOf({ items, tombstones }, item.id)) continue;
    items.set(item.id, item);
    tombstones.delete(item.id);
  }
  return { position: { ...state.position, revision: record.to }, items, tombstones: bounded(tombstones) };
}

/** Returns the lowest generation that an item with this id may have. */
function floorOf({ items, tombstones }: Pick<State, 'items' | 'tombstones'>, id: string): number {
  return items.get(id)?.generation ?? tombstones.get(id)?.generation ?? 0;
}

/** Returns the state with all generations set to 0, for a set of another history. */
function withoutGenerations(state: State): State {
  const none = { generation: 0 };
  return {
    position: state.position,
    items: new Map([...state.items].map(([id, item]) => [id, { ...item, ...none }])),
    tombstones: new Map([...state.tombstones].map(([id, it]) => [id, { ...it, ...none }])),
  };
}

function applySettled(state: State, record: z.infer<typeof Settled>): State {
  const tombstones = new Map(state.tombstones);
  for (const id of record.ids) {
    const known = tombstones.get(id);
    if (known !== undefined) tombstones.set(id, { ...known, acknowledged: true });
  }
  return { ...state, tombstones: bounded(tombstones) };
}

/** An item whose process runs with a configuration. */
type Configured = WireAssignment & { spec: WireService | WireFunction };

function isConfigured(item: WireAssignment): item is Configured {
  return item.spec.type === 'service' || item.spec.type === 'function';
}

function needsConfiguration(item: WireAssignment): item is Configured {
  if (item.run !== 'running' || !isConfigured(item)) return false;
  return item.spec.config !== undefined && item.spec.configuration === undefined;
}

/** Ids of the configurations that the items refer to. */
function referred({ items }: State): Set<string> {
  const ids = new Set<string>();
  for (const { spec } of items.values()) if (typeof spec['config'] === 'string') ids.add(spec['config']);
  return ids;
}

function bury(tombstones: Map<string, Tombstone>, item: WireItem): void {
  const spec = understand(item)?.spec;
  const { grace_seconds, drain_seconds } =
    spec?.type === 'service' ? spec : { grace_seconds: spec === undefined ? unknownGraceSeconds : 0, drain_seconds: 0 };
  tombstones.set(item.id, { generation: item.generation, grace_seconds, drain_seconds, acknowledged: false });
}

/** Removes the oldest acknowledged tombstones beyond `keptTombstones`. */
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
