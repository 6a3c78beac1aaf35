import { desiredDigest } from '../../agent-protocol/desired-digest.ts';
import { deltaMessages, snapshotMessages } from '../../agent-protocol/desired-parts.ts';
import type { Piece } from '../../agent-protocol/desired-parts.ts';
import type { ControlMessage } from '../../agent-protocol/messages.ts';
import { timing } from '../../agent-protocol/timing.ts';
import type { Clock } from '../../time/clock.ts';
import type { Mirror, TenantView } from '../../store/mirror.ts';
import { isDeleting } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { limits } from './limits.ts';
import type { Projection, Sendable, Unsendable } from './projection.ts';

type Assignment = ReadonlyResource<'assignment'>;

export interface FeedOptions {
  mirror: Pick<Mirror, 'applied'>;
  view: Pick<TenantView, 'get' | 'by' | 'unreadable'>;
  clock: Clock;
  server: string;
  incarnation: string;
  projection: Projection;
  /** Receives the sets, as messages that are made when they are taken. A snapshot replaces messages not taken yet. */
  out: Record<'snapshot' | 'delta', (messages: Iterable<ControlMessage>) => void>;
  /** Called for an assignment that is left out of the set. */
  unsendable: (it: Assignment, why: Unsendable) => void;
  /** Called when the set could not be made, which is a bug. Nothing more is sent. */
  failed: (error: unknown) => void;
  /** Called when the agent neither took a message of a set in time nor stored the last one. */
  silent: () => void;
}

/** The state of an assignment that was sent to the agent. */
interface Sent {
  /** Generation and hash. */
  state: string;
  configuration: string | undefined;
}

/**
 * Sends one agent its desired set: a snapshot first, then the changes, as a chain of revisions. One set is on its way
 * at a time: changes until the agent has stored it go together into the next one. The messages of a set are made as the
 * agent takes them, from the objects as they were at its beginning. An agent that reads slowly has time as long as it
 * reads.
 *
 * A configuration is sent before the first item that refers to it. Once no item refers to it any more, the agent drops
 * it, so that it is sent again for the next such item.
 *
 * An assignment whose deletion is requested is not in the set: it is dropped by name, in a delta also after a snapshot,
 * so that the agent confirms that it is gone even if it never had it.
 */
export class DesiredFeed {
  #options: FeedOptions;
  #sent = new Map<string, Sent>();
  /** Number of items that were sent, by the configuration that they refer to. */
  #references = new Map<string, number>();
  #dropped = new Set<string>();
  #dirty = new Set<string>();
  #keep: readonly string[] = [];
  #revision = 0;
  /** Sets that the agent has not taken to their end yet. */
  #sending = 0;
  /** Snapshots and deltas that the agent took and has not stored yet. */
  #unapplied = 0;
  /** Counts the snapshots that became due: a set that was begun before the last of them is not sent any more. */
  #round = 0;
  #snapshotDue = false;
  /** How often the agent asked for a snapshot of late, and when it did last. */
  #asked = 0;
  #askedAt = Number.NEGATIVE_INFINITY;
  /** The agent asked for a snapshot that is not begun yet. */
  #isAsked = false;
  #flushedAt = Number.NEGATIVE_INFINITY;
  #isScheduled = false;
  #cancelTimer: (() => void) | undefined;
  #cancelDeadline: (() => void) | undefined;
  #isOpen = false;

  constructor(options: FeedOptions) {
    this.#options = options;
  }

  /** Schedules a snapshot. `keep`: ids that the agent is to leave as they are. */
  start(keep: readonly string[] = []): void {
    this.#isOpen = true;
    this.#keep = keep;
    this.#snapshotDue = true;
    this.#schedule();
  }

  /** The assignment changed or was deleted. */
  changed(id: string): void {
    if (!this.#isOpen) return;
    this.#dirty.add(id);
    this.#schedule();
  }

  /** The agent stored a set, or a part of one. */
  applied(): void {
    this.#unapplied = Math.max(0, this.#unapplied - 1);
    if (this.#isBusy) this.#expect();
    else this.#settle();
  }

  /**
   * The agent's set is not the one that the chain continues. It waits longer each time that it asks within a few minutes,
   * also if it took the set meanwhile, as a whole set costs much more than the question. Returns false if it has asked
   * already and waits.
   */
  needSnapshot(): boolean {
    if (!this.#isOpen || this.#isAsked) return false;
    const now = this.#options.clock.monotonic();
    if (now - this.#askedAt > 2 * limits.desired.snapshotMaxWaitMs) this.#asked = 0;
    this.#askedAt = now;
    this.#isAsked = true;
    const wait = this.#asked === 0 ? 0 : Math.min(limits.desired.snapshotMaxWaitMs, 1000 * 2 ** (this.#asked - 1));
    this.#asked++;
    this.#beginRound();
    this.#flushedAt = now;
    this.#later(wait);
    return true;
  }

  stop(): void {
    this.#isOpen = false;
    this.#round++;
    this.#cancelTimer?.();
    this.#cancelDeadline?.();
  }

  #beginRound(): void {
    this.#round++;
    this.#sending = 0;
    this.#unapplied = 0;
    this.#cancelDeadline?.();
    this.#snapshotDue = true;
  }

  get #isBusy(): boolean {
    return this.#sending > 0 || this.#unapplied > 0;
  }

  #settle(): void {
    if (this.#isBusy) return;
    this.#cancelDeadline?.();
    if (this.#snapshotDue || this.#dirty.size > 0) this.#schedule();
  }

  #schedule(): void {
    if (this.#isBusy || this.#cancelTimer !== undefined || this.#isScheduled) return;
    const idle = this.#options.clock.monotonic() - this.#flushedAt;
    if (idle < limits.desired.debounceMs) this.#later(limits.desired.debounceMs - idle);
    else {
      // Not at once: the mirror reports the changes of one transaction one by one.
      this.#isScheduled = true;
      queueMicrotask(() => {
        this.#isScheduled = false;
        this.#flush();
      });
    }
  }

  #later(ms: number): void {
    this.#cancelTimer?.();
    this.#cancelTimer = this.#options.clock.timer(ms, () => {
      this.#cancelTimer = undefined;
      this.#flush();
    });
  }

  #flush(): void {
    if (!this.#isOpen) return;
    this.#flushedAt = this.#options.clock.monotonic();
    const changed = [...this.#dirty];
    this.#dirty.clear();
    try {
      if (this.#snapshotDue || changed.length > limits.desired.deltaItems) this.#snapshot();
      else this.#delta(changed);
    } catch (error) {
      this.stop();
      this.#options.failed(error);
      return;
    }
  }

  #snapshot(): void {
    this.#beginRound();
    this.#snapshotDue = false;
    this.#isAsked = false;
    this.#sent.clear();
    this.#references.clear();
    this.#dropped.clear();
    const put: Sendable[] = [];
    // Assignments that only a newer release can read may be of this server.
    const keep = [...this.#keep, ...this.#options.view.unreadable('assignment')];
    const drop: string[] = [];
    for (const it of this.#options.view.by('assignment', 'server', this.#options.server)) {
      const sendable = isDeleting(it) ? undefined : this.#check(it);
      if (sendable !== undefined) put.push(sendable);
      else (isDeleting(it) ? drop : keep).push(it.meta.id);
    }
    const revision = this.#options.mirror.applied;
    const items = put.map(({ it: { meta, desired } }) => ({
      id: meta.id,
      generation: meta.generation,
      spec_hash: desired.spec_hash,
    }));
    const begin = {
      incarnation: this.#options.incarnation,
      revision,
      count: items.length,
      digest: desiredDigest(items),
      keep,
    };
    this.#revision = revision;
    this.#sendSet('snapshot', snapshotMessages(begin, this.#pieces(put, [])));
    if (drop.length > 0) this.#change([], drop);
  }

  #delta(changed: readonly string[]): void {
    const put: Sendable[] = [];
    const drop: string[] = [];
    for (const id of changed) {
      const it = this.#options.view.get('assignment', id);
      if (it === undefined && this.#options.view.unreadable('assignment').includes(id)) continue;
      const isMine = it?.desired.server_id === this.#options.server;
      if (it === undefined || !isMine || isDeleting(it)) {
        if (this.#sent.has(id) || (isMine && !this.#dropped.has(id))) drop.push(id);
        if (it === undefined) this.#dropped.delete(id);
        continue;
      }
      const sendable = this.#sent.get(id)?.state === stateOf(it) ? undefined : this.#check(it);
      if (sendable !== undefined) put.push(sendable);
    }
    if (put.length > 0 || drop.length > 0) this.#change(put, drop);
  }

  #change(put: readonly Sendable[], drop: readonly string[]): void {
    const to = this.#options.mirror.applied;
    const from = this.#revision;
    this.#revision = to;
    this.#sendSet('delta', deltaMessages(from, to, this.#pieces(put, drop)));
  }

  /** Sends a set. The deadline begins anew with each message that the agent takes. */
  #sendSet(form: 'snapshot' | 'delta', messages: Iterable<ControlMessage>): void {
    this.#sending++;
    this.#expect();
    this.#options.out[form](this.#taken(messages, this.#round));
  }

  *#taken(messages: Iterable<ControlMessage>, round: number): Generator<ControlMessage> {
    for (const message of messages) {
      if (round !== this.#round) return;
      this.#expect();
      if (message.type === 'snapshot.end' || message.type === 'delta') this.#unapplied++;
      yield message;
    }
    if (round !== this.#round) return;
    this.#sending--;
    this.#options.projection.forget();
    this.#settle();
  }

  #expect(): void {
    this.#cancelDeadline?.();
    this.#cancelDeadline = this.#options.clock.timer(timing.answerMs, this.#options.silent);
  }

  /** The parts of a set. Items of one version follow each other, so that its configuration is opened once. */
  *#pieces(put: readonly Sendable[], drop: readonly string[]): Generator<Piece> {
    for (const id of drop) {
      this.#forget(id);
      if (this.#options.view.get('assignment', id) !== undefined) this.#dropped.add(id);
      yield { drop: id };
    }
    const { projection } = this.#options;
    for (const sendable of put.toSorted(byVersion)) {
      const { it, holder, part } = sendable;
      this.#forget(it.meta.id);
      const configuration = projection.configurationOf(sendable);
      if (configuration !== undefined && holder !== undefined) {
        const references = this.#references.get(configuration) ?? 0;
        if (references === 0) yield { configuration: projection.configuration(holder, part) };
        this.#references.set(configuration, references + 1);
      }
      this.#sent.set(it.meta.id, { state: stateOf(it), configuration });
      yield { item: projection.item(sendable) };
    }
  }

  #forget(id: string): void {
    const configuration = this.#sent.get(id)?.configuration;
    this.#sent.delete(id);
    if (configuration === undefined) return;
    const references = (this.#references.get(configuration) ?? 0) - 1;
    if (references > 0) this.#references.set(configuration, references);
    else this.#references.delete(configuration);
  }

  #check(it: Assignment): Sendable | undefined {
    const checked = this.#options.projection.check(it);
    if ('it' in checked) return checked;
    this.#options.unsendable(it, checked);
    return undefined;
  }
}

function byVersion({ it: a }: Sendable, { it: b }: Sendable): number {
  const [left, right] = [a.desired.version, b.desired.version];
  return left < right ? -1 : left > right ? 1 : 0;
}

function stateOf({ meta, desired }: Assignment): string {
  return `${meta.generation} ${desired.spec_hash}`;
}
