import type { Connections } from '../../store/connections.ts';
import type { HeldRemovals } from '../../store/held-removals.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import type { LiveAgent, TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';

/** A view of the declared kinds only: an undeclared read is a bug of the controller and throws. */
export class GuardedView implements TenantView {
  readonly #view: TenantView;
  readonly #controller: string;
  readonly #kinds: ReadonlySet<KindName>;

  constructor(view: TenantView, controller: string, kinds: ReadonlySet<KindName>) {
    this.#view = view;
    this.#controller = controller;
    this.#kinds = kinds;
  }

  get tenant(): string {
    return this.#view.tenant;
  }

  get isSame(): TenantView['isSame'] {
    return this.#view.isSame;
  }

  get<K extends KindName>(kind: K, id: string): ReadonlyResource<K> | undefined {
    this.#check(kind);
    return this.#view.get(kind, id);
  }

  by<K extends KindName>(kind: K, index: string, value: string): readonly ReadonlyResource<K>[] {
    this.#check(kind);
    return this.#view.by(kind, index, value);
  }

  list<K extends KindName>(kind: K): readonly ReadonlyResource<K>[] {
    this.#check(kind);
    return this.#view.list(kind);
  }

  unreadable(kind: KindName): readonly string[] {
    this.#check(kind);
    return this.#view.unreadable(kind);
  }

  agent(server: string): LiveAgent | undefined {
    this.#check('server');
    return this.#view.agent(server);
  }

  heldRemovals(server: string): HeldRemovals | undefined {
    this.#check('server');
    return this.#view.heldRemovals(server);
  }

  connections(server: string): Connections | undefined {
    this.#check('server');
    return this.#view.connections(server);
  }

  #check(kind: KindName): void {
    if (!this.#kinds.has(kind))
      throw new TypeError(`Controller ${this.#controller} must declare in \`reads\` what it reads: ${kind}`);
  }
}
