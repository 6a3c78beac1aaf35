import type { WireAssignment } from '../../agent-protocol/assignment.ts';
import type { Position } from '../../agent-protocol/messages.ts';
import { timing } from '../../agent-protocol/timing.ts';
import type { Clock } from '../../store/clock.ts';
import type { Mirror, TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { limits } from './limits.ts';

type Assignment = ReadonlyResource<'assignment'>;

export interface FeedOptions {
  mirror: Pick<Mirror, 'applied'>;
  view: Pick<TenantView, 'get' | 'by'>;
  clock: Clock;
  server: string;
  incarnation: string;
  project: (it: Assignment) => { item: WireAssignment } | { unopened: string };
  /** Where the sets go. */
  out: {
    snapshot(position: Position, items: readonly WireAssignment[], keep: readonly string[]): void;
    delta(from: number, to: number, put: readonly WireAssignment[], drop: readonly string[]): void;
  };
  /** An assignment is kept out of the set since its secrets cannot be opened. */
  unopened: (it: Assignment, message: string) => void;
  /** The set could not be made: a bug. Nothing more is sent. */
  failed: (error: unknown) => void;
  /** The agent did not store a set in time. */
  silent: () => void;
}

/**
 * Tells one agent its desired set: a snapshot first, then what changes, as a chain of revisions. One message is on its
 * way at a time: what changes until the agent stored it goes together into the next one.
 *
 * An assignment whose deletion is requested is not in the set: it is dropped by name, in a delta also after a snapshot,
 * so that the agent confirms that it is gone even if it never had it.
 */
export class DesiredFeed {
  #o: FeedOptions;
  /** What the agent was told: id → generation and hash. */
  #sent = new Map<string, string>();
  #dropped = new Set<string>();
  #dirty = new Set<string>();
  #keep: readonly string[] = [];
  #revision = 0;
  #unapplied = 0;
  #snapshotDue = false;
  #asked = 0;
  #flushedAt = Number.NEGATIVE_INFINITY;
  #isScheduled = false;
  #cancelTimer: (() => void) | undefined;
  #cancelDeadline: (() => void) | undefined;
  #isOpen = false;

  constructor(options: FeedOptions) {
    this.#o = options;
  }

  /** Sends the first snapshot, or another one. `keep`: ids that the agent is to leave as they are. */
  start(keep: readonly string[] = []): void {
    this.#isOpen = true;
    this.#keep = keep;
    this.#snapshotDue = true;
    this.#schedule();
  }

  /** The assignment changed, or is gone. */
  changed(id: string): void {
    if (!this.#isOpen) return;
    this.#dirty.add(id);
    this.#schedule();
  }

  /** The agent stored a set. */
  applied(): void {
    this.#unapplied = Math.max(0, this.#unapplied - 1);
    if (this.#unapplied > 0) return;
    this.#cancelDeadline?.();
    this.#asked = 0;
    if (this.#snapshotDue || this.#dirty.size > 0) this.#schedule();
  }

  /** The agent's set is not the one that the chain continues. Each time it asks in a row it waits longer. */
  needSnapshot(): void {
    if (!this.#isOpen) return;
    const wait = this.#asked === 0 ? 0 : Math.min(limits.desired.snapshotMaxWaitMs, 1000 * 2 ** (this.#asked - 1));
    this.#asked++;
    this.#unapplied = 0;
    this.#cancelDeadline?.();
    this.#snapshotDue = true;
    this.#flushedAt = this.#o.clock.monotonic();
    this.#later(wait);
  }

  stop(): void {
    this.#isOpen = false;
    this.#cancelTimer?.();
    this.#cancelDeadline?.();
  }

  #schedule(): void {
    if (this.#unapplied > 0 || this.#cancelTimer !== undefined || this.#isScheduled) return;
    const idle = this.#o.clock.monotonic() - this.#flushedAt;
    if (idle < limits.desired.debounceMs) this.#later(limits.desired.debounceMs - idle);
    else {
      // Not at once: the mirror tells the changes of one transaction one by one.
      this.#isScheduled = true;
      queueMicrotask(() => {
        this.#isScheduled = false;
        this.#flush();
      });
    }
  }

  #later(ms: number): void {
    this.#cancelTimer?.();
    this.#cancelTimer = this.#o.clock.timer(ms, () => {
      this.#cancelTimer = undefined;
      this.#flush();
    });
  }

  #flush(): void {
    if (!this.#isOpen) return;
    this.#flushedAt = this.#o.clock.monotonic();
    const changed = [...this.#dirty];
    this.#dirty.clear();
    try {
      if (this.#snapshotDue || changed.length > limits.desired.deltaItems) this.#snapshot();
      else this.#delta(changed);
    } catch (error) {
      this.stop();
      this.#o.failed(error);
      return;
    }
    if (this.#unapplied > 0) this.#cancelDeadline = this.#o.clock.timer(timing.answerMs, this.#o.silent);
  }

  #snapshot(): void {
    this.#snapshotDue = false;
    this.#sent.clear();
    this.#dropped.clear();
    const items: WireAssignment[] = [];
    const keep = [...this.#keep];
    const drop: string[] = [];
    for (const it of this.#o.view.by('assignment', 'server', this.#o.server)) {
      const { id } = it.meta;
      if (isDeleting(it)) drop.push(id);
      else {
        const item = this.#open(it);
        if (item === undefined) keep.push(id);
        else items.push(item);
      }
    }
    const revision = this.#o.mirror.applied;
    this.#o.out.snapshot({ incarnation: this.#o.incarnation, revision }, items, keep);
    this.#revision = revision;
    this.#unapplied++;
    for (const item of items) this.#sent.set(item.id, stateOf(item));
    if (drop.length > 0) this.#tell([], drop);
  }

  #delta(changed: readonly string[]): void {
    const put: WireAssignment[] = [];
    const drop: string[] = [];
    for (const id of changed) {
      const it = this.#o.view.get('assignment', id);
      const isMine = it?.desired.server_id === this.#o.server;
      if (it === undefined || !isMine || isDeleting(it)) {
        if (this.#sent.has(id) || (isMine && !this.#dropped.has(id))) drop.push(id);
        if (it === undefined) this.#dropped.delete(id);
        continue;
      }
      const item = this.#open(it);
      if (item !== undefined && this.#sent.get(id) !== stateOf(item)) put.push(item);
    }
    if (put.length > 0 || drop.length > 0) this.#tell(put, drop);
  }

  #tell(put: readonly WireAssignment[], drop: readonly string[]): void {
    const to = this.#o.mirror.applied;
    this.#o.out.delta(this.#revision, to, put, drop);
    this.#revision = to;
    this.#unapplied++;
    for (const item of put) this.#sent.set(item.id, stateOf(item));
    for (const id of drop) {
      this.#sent.delete(id);
      if (this.#o.view.get('assignment', id) !== undefined) this.#dropped.add(id);
    }
  }

  #open(it: Assignment): WireAssignment | undefined {
    const projected = this.#o.project(it);
    if ('item' in projected) return projected.item;
    this.#o.unopened(it, projected.unopened);
    return undefined;
  }
}

function isDeleting(it: Assignment): boolean {
  return it.meta.deletionRequestedAt !== undefined;
}

function stateOf(item: WireAssignment): string {
  return `${item.generation} ${item.spec_hash}`;
}
