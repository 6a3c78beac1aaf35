import type { LogsToKeep } from '../../agent-protocol/logs.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import { serverOf } from '../../store/server-of.ts';

/** Workloads per message. */
const batch = 1000;

type WorkloadKind = DesiredOf<'assignment'>['workload_kind'];
type Kept = NonNullable<LogsToKeep['workloads'][string]>;

/** Every kind whose lines an agent keeps: what is not in the list of the agent loses its log. */
const workloadKinds: Readonly<Record<WorkloadKind, true>> = {
  application: true,
  database: true,
  run: true,
  volume: true,
  server: true,
  backup: true,
  restore: true,
  wal_archive: true,
  function: true,
};
const isWorkloadKind = (kind: string): kind is WorkloadKind => Object.hasOwn(workloadKinds, kind);

interface Options {
  view: Pick<TenantView, 'by' | 'get'>;
  server: string;
  send: (keep: LogsToKeep) => void;
}

/**
 * Sends one agent which workloads its logs can be of, and from when on it keeps the lines about the making of images: from
 * the oldest deployment in the history of an application on. It sends all of them at the beginning, then the changes.
 */
export class KeptLogs {
  readonly #options: Options;
  /** `builds_since` of each workload that was sent. */
  readonly #sent = new Map<string, string | undefined>();
  #hasBegun = false;

  constructor(options: Options) {
    this.#options = options;
  }

  /** The set that the agent gets next is of the present history: what it does not name is gone. */
  begin(): void {
    this.#hasBegun = true;
    this.#sent.clear();
    const all = Object.keys(workloadKinds)
      .filter(isWorkloadKind)
      .flatMap((kind) => this.#idsOf(kind));
    for (let from = 0; from === 0 || from < all.length; from += batch) {
      const workloads: LogsToKeep['workloads'] = {};
      for (const id of all.slice(from, from + batch)) workloads[id] = this.#note(id, this.#keptOf(id));
      this.#options.send({ whole: from === 0, more: from + batch < all.length, workloads });
    }
  }

  /** An object of that kind came, changed or was deleted; of a deployment the id is that of its application. */
  changed(kind: string, id: string): void {
    if (!this.#hasBegun || kind === 'server') return;
    const { view, server, send } = this.#options;
    const known = kind === 'deployment' ? 'application' : kind;
    if (!isWorkloadKind(known)) return;
    const kept = serverOf(view.get(known, id)) === server ? this.#keptOf(id) : undefined;
    if (this.#sent.has(id) === (kept !== undefined) && this.#sent.get(id) === kept?.builds_since) return;
    send({ whole: false, more: false, workloads: { [id]: kept === undefined ? null : this.#note(id, kept) } });
    if (kept === undefined) this.#sent.delete(id);
  }

  #note(id: string, kept: Kept): Kept {
    this.#sent.set(id, kept.builds_since);
    return kept;
  }

  #idsOf(kind: WorkloadKind): string[] {
    const { view, server } = this.#options;
    return kind === 'server' ? [server] : view.by(kind, 'server', server).map(({ meta }) => meta.id);
  }

  #keptOf(id: string): Kept {
    const since = this.#options.view
      .by('deployment', 'application', id)
      .map(({ desired }: { desired: DeepReadonly<DesiredOf<'deployment'>> }) => desired.queued_at)
      .toSorted()[0];
    return since === undefined ? {} : { builds_since: since };
  }
}
