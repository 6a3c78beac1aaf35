import { batch, computed, signal } from '@preact/signals';
import type { ReadonlySignal, Signal } from '@preact/signals';
import type { Kind, ObjectOf, Objects } from '../model.ts';
import { kinds } from '../model.ts';

type ById<K extends Kind> = ReadonlyMap<string, ObjectOf<K>>;
type AnyObject = Objects[Kind];

/** Deployments of each application that are kept besides those that a page has read. */
const keptDeployments = 20;
/** Objects of a kind that are kept; a list that is longer is read by pages. */
export const keptObjects = 5000;

/** What the stream says of one object. */
export interface Change {
  readonly kind: Kind;
  readonly id: string;
  /** `undefined` if it was deleted. */
  readonly object: AnyObject | undefined;
}

/** The answer of a list: which objects of a kind are there now, among those that `covers` names. */
export interface ListAnswer<K extends Kind> {
  readonly kind: K;
  readonly objects: readonly ObjectOf<K>[];
  covers(this: void, object: ObjectOf<K>): boolean;
}

/**
 * The objects that the user may see, by kind and id. Changes wait until the next frame of the screen and are then shown at
 * once. An answer to a request never undoes a change that came after the request began.
 */
export class Store {
  readonly #maps = new Map<Kind, Signal<ReadonlyMap<string, AnyObject>>>(
    kinds.map((kind) => [kind, signal<ReadonlyMap<string, AnyObject>>(new Map())]),
  );
  readonly #objects = new Map<string, ReadonlySignal<AnyObject | undefined>>();
  readonly #waiting: Change[] = [];
  /** Objects that changed while a request is under way, by the number of their last change. */
  readonly #touched = new Map<string, number>();
  #changes = 0;
  #requests = 0;
  #paint: number | undefined;

  /** All known objects of a kind. */
  all<K extends Kind>(kind: K): ById<K> {
    return this.#map(kind).value;
  }

  /** One object; a component that reads only this is painted again only when the object changes. */
  get<K extends Kind>(kind: K, id: string): ObjectOf<K> | undefined {
    const name = `${kind}/${id}`;
    let one = this.#objects.get(name);
    if (one === undefined) {
      if (this.#objects.size >= keptObjects) this.#objects.clear();
      one = computed(() => this.all(kind).get(id));
      this.#objects.set(name, one);
    }
    return one.value as ObjectOf<K> | undefined; // the map of the kind has it
  }

  /** Takes a change of the stream. */
  change(change: Change): void {
    this.#changes += 1;
    if (this.#requests > 0) this.#touched.set(`${change.kind}/${change.id}`, this.#changes);
    this.#waiting.push(change);
    this.#paint ??= requestAnimationFrame(() => this.flush());
    // a tab in the background has no frames
    if (this.#waiting.length > 1000) this.flush();
  }

  /** Shows what waits for the next frame. */
  flush(): void {
    if (this.#paint !== undefined) cancelAnimationFrame(this.#paint);
    this.#paint = undefined;
    const changes = this.#waiting.splice(0);
    batch(() => {
      for (const [kind, own] of Map.groupBy(changes, (one) => one.kind)) {
        const objects = new Map(this.#map(kind).peek() as ReadonlyMap<string, AnyObject>);
        for (const { id, object } of own) {
          if (object === undefined) objects.delete(id);
          else objects.set(id, object);
        }
        this.#set(kind, objects);
      }
    });
  }

  /** Reads a list and takes its answer. @throws what `read` throws */
  async take<K extends Kind>(read: () => Promise<ListAnswer<K>>): Promise<void> {
    const began = this.#changes;
    this.#requests += 1;
    try {
      const { kind, objects, covers } = await read();
      this.flush();
      const present = new Map(this.#map(kind).peek());
      const isNewer = (id: string): boolean => (this.#touched.get(`${kind}/${id}`) ?? 0) > began;
      const answered = new Set(objects.map(({ id }) => id));
      for (const [id, one] of present) if (covers(one) && !answered.has(id) && !isNewer(id)) present.delete(id);
      for (const one of objects) if (!isNewer(one.id)) present.set(one.id, one);
      this.#set(kind, present);
    } finally {
      this.#requests -= 1;
      if (this.#requests === 0) this.#touched.clear();
    }
  }

  /** Takes the answer of a verb, which already has the state that the verb leads to. */
  async answer<K extends Kind>(kind: K, request: () => Promise<ObjectOf<K>>): Promise<ObjectOf<K>> {
    let answered: ObjectOf<K> | undefined;
    await this.take(async () => {
      answered = await request();
      return { kind, objects: [answered], covers: () => false };
    });
    if (answered === undefined) throw new Error('The request had no answer'); // `take` has awaited it
    return answered;
  }

  #map<K extends Kind>(kind: K): Signal<ById<K>> {
    return this.#maps.get(kind) as Signal<ById<K>>; // made for each kind
  }

  #set(kind: Kind, objects: Map<string, AnyObject>): void {
    if (kind === 'deployment') forgetOldDeployments(objects as Map<string, ObjectOf<'deployment'>>);
    for (const id of objects.keys()) {
      if (objects.size <= keptObjects) break;
      objects.delete(id);
    }
    const target = this.#maps.get(kind);
    if (target !== undefined) target.value = objects;
  }
}

function forgetOldDeployments(objects: Map<string, ObjectOf<'deployment'>>): void {
  for (const own of Map.groupBy(objects.values(), (one) => one.application_id).values())
    for (const old of own.toSorted((a, b) => b.number - a.number).slice(keptDeployments)) objects.delete(old.id);
}
