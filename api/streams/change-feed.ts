import { parseKey } from '../../store/keys.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import type { Mirror, ObjectChange } from '../../store/mirror.ts';
import { isKind } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Revision } from '../../store/revision.ts';
import type { Keep } from '../ground/cached-json.ts';
import { resourceOf, shownIn, watchedKinds } from '../resources/resources.ts';
import type { ResourceKind } from '../resources/resources.ts';
import type { Store } from '../../store/store.ts';
import { projectIdOf } from '../endpoint/subject.ts';
import { cursorOf, isOfHistory } from './position.ts';
import type { Position } from './position.ts';
import { PreparedFrame } from './prepared-frame.ts';

const watched: ReadonlySet<KindName> = new Set(watchedKinds);

const maxTombstones = 10_000;
/** Most objects whose last change without a revision of their own is remembered. */
const maxShown = 10_000;

/** A change as readers see it. Its frames are built once for all readers. */
export interface FeedChange {
  kind: ResourceKind;
  id: string;
  revision: Revision;
  /** The project whose roles decide who sees it, as it is or last was; absent for servers. */
  project: ReadonlyResource<'project'> | undefined;
  /** The server as it is or last was, for a change of a server. */
  server?: ReadonlyResource<'server'>;
  /** `masked`: for readers who see only name and status of a server. */
  frame(masked: boolean): PreparedFrame;
}

export interface FeedReader {
  tenant: string;
  changed(change: FeedChange): void;
}

/**
 * Publishes changes to readers, from the one mirror of the process. What a reader missed is rebuilt from the present:
 * the last state of everything that changed since, and the deletions that are still remembered.
 */
export class ChangeFeed implements Disposable {
  readonly #store: Pick<Store, 'incarnation'>;
  readonly #mirror: Mirror;
  readonly #keep: Keep;
  readonly #readers = new Set<FeedReader>();
  readonly #tombstones: { tenant: string; change: FeedChange }[] = [];
  /** When objects last showed a change of something else, the latest last. */
  readonly #shown = new Map<string, Revision>();
  /** Deletions, and changes that follow from others, after this revision are remembered. */
  #complete: Revision;
  readonly #unsubscribe: (() => void)[];

  constructor(store: Pick<Store, 'incarnation'>, mirror: Mirror, keep: Keep) {
    this.#store = store;
    this.#mirror = mirror;
    this.#keep = keep;
    this.#complete = mirror.applied;
    this.#unsubscribe = [
      mirror.subscribe((change) => this.#objectChanged(change)),
      mirror.subscribeKeys(({ key, revision }) => {
        const meaning = parseKey(key);
        if (meaning?.area === 'agent') this.#publishShown(meaning.tenant, 'server', meaning.server, revision);
      }),
    ];
  }

  /** Calls the reader synchronously, in the order of revisions, until the returned function is called. */
  subscribe(reader: FeedReader): () => void {
    this.#readers.add(reader);
    return () => void this.#readers.delete(reader);
  }

  /**
   * The changes after a position, in the order of revisions: the last state of each object. `lost`: a deletion, or a change
   * that follows from another one, may be missing, or the position is of another history, for which no changes are known.
   */
  since(tenant: string, position: Position): { changes: readonly FeedChange[]; lost: boolean } {
    if (!isOfHistory(position, this.#store.incarnation)) return { changes: [], lost: true };
    const { revision: after } = position;
    const view = this.#mirror.tenant(tenant);
    const changes = watchedKinds.flatMap((kind) =>
      view.list(kind).flatMap((it) => {
        const own = lastRevisionOf(it);
        const shown = this.#shown.get(nameOf(tenant, kind, it.meta.id)) ?? own;
        const revision = shown > own ? shown : own;
        return revision > after ? [this.#changeOf(tenant, it, revision)] : [];
      }),
    );
    const deleted = this.#tombstones
      .filter((one) => one.tenant === tenant && one.change.revision > after)
      .map(({ change }) => change)
      .filter(({ kind, id }) => view.get(kind, id) === undefined);
    return {
      changes: [...changes, ...deleted].sort((a, b) => a.revision - b.revision),
      lost: after < this.#complete || after > this.#mirror.applied,
    };
  }

  [Symbol.dispose](): void {
    for (const end of this.#unsubscribe) end();
  }

  #objectChanged(change: ObjectChange): void {
    const { tenant, kind, id, revision, after } = change;
    if (isWatched(kind)) {
      if (after === undefined) this.#deleted(change);
      else this.#publishCurrent(tenant, kind, id, revision);
    }
    const view = this.#mirror.tenant(tenant);
    for (const [shown, shownId] of shownIn(change, view)) this.#publishShown(tenant, shown, shownId, revision);
  }

  /** Remembers it also while there is no reader: one that comes back has missed it. */
  #publishShown(tenant: string, kind: ResourceKind, id: string, revision: Revision): void {
    const name = nameOf(tenant, kind, id);
    this.#shown.delete(name);
    this.#shown.set(name, revision);
    if (this.#shown.size > maxShown) {
      const [oldest] = this.#shown;
      if (oldest !== undefined) this.#forget(...oldest);
    }
    this.#publishCurrent(tenant, kind, id, revision);
  }

  #forget(name: string, revision: Revision): void {
    this.#shown.delete(name);
    if (revision > this.#complete) this.#complete = revision;
  }

  #publishCurrent(tenant: string, kind: ResourceKind, id: string, revision: Revision): void {
    if (this.#readers.size === 0) return;
    const it = this.#mirror.tenant(tenant).get(kind, id);
    if (it !== undefined) this.#publish(tenant, this.#changeOf(tenant, it, revision));
  }

  #deleted({ tenant, kind, id, revision, before }: ObjectChange): void {
    if (!isWatched(kind)) return;
    const frame = new PreparedFrame(
      JSON.stringify({ type: 'change', op: 'delete', kind, id, cursor: this.cursor(revision) }),
    );
    // the kind was checked above
    const project = before && this.#projectOf(tenant, before as ReadonlyResource<ResourceKind>);
    const server = serverIn(before);
    const change: FeedChange = { kind, id, revision, project, ...(server && { server }), frame: () => frame };
    this.#tombstones.push({ tenant, change });
    if (this.#tombstones.length > maxTombstones) {
      const forgotten = this.#tombstones.shift();
      if (forgotten !== undefined && forgotten.change.revision > this.#complete)
        this.#complete = forgotten.change.revision;
    }
    this.#publish(tenant, change);
  }

  #publish(tenant: string, change: FeedChange): void {
    for (const reader of this.#readers) if (reader.tenant === tenant) reader.changed(change);
  }

  #changeOf(tenant: string, it: ReadonlyResource<ResourceKind>, revision: Revision): FeedChange {
    const { kind, id } = it.meta;
    const frames = new Map<boolean, PreparedFrame>();
    const server = serverIn(it);
    return {
      kind,
      id,
      revision,
      project: this.#projectOf(tenant, it),
      ...(server && { server }),
      frame: (masked) => {
        let frame = frames.get(masked);
        if (frame === undefined) {
          const head = JSON.stringify({ type: 'change', op: 'put', kind, id, cursor: this.cursor(revision) });
          frame = new PreparedFrame(`${head.slice(0, -1)},"object":${this.#json(tenant, it, masked)}}`);
          frames.set(masked, frame);
        }
        return frame;
      },
    };
  }

  #projectOf(tenant: string, it: ReadonlyResource<ResourceKind>): ReadonlyResource<'project'> | undefined {
    if (isKind(it, 'project')) return it;
    const id = projectIdOf(it);
    return id === undefined ? undefined : this.#mirror.tenant(tenant).get('project', id);
  }

  #json(tenant: string, it: ReadonlyResource<ResourceKind>, masked: boolean): string {
    const view = this.#mirror.tenant(tenant);
    const keep = this.#keep;
    const resource = resourceOf(it.meta.kind);
    return (masked ? resource.keptMasked(keep, it, view) : resource.kept(keep, it, view)).json;
  }

  /** A position that a reader can resume from. */
  cursor(revision: Revision = this.#mirror.applied): string {
    return cursorOf(this.#store.incarnation, revision);
  }
}

function nameOf(tenant: string, kind: ResourceKind, id: string): string {
  return `${tenant} ${kind} ${id}`;
}

function isWatched(kind: KindName): kind is ResourceKind {
  return watched.has(kind);
}

function serverIn(it: ReadonlyResource | undefined): ReadonlyResource<'server'> | undefined {
  return isKind(it, 'server') ? it : undefined;
}

function lastRevisionOf({ meta }: ReadonlyResource): Revision {
  const { desiredRevision, observedRevision } = meta;
  return observedRevision !== undefined && observedRevision > desiredRevision ? observedRevision : desiredRevision;
}
