import { useEffect, useState } from 'preact/hooks';
import { list, openSocket, Refused } from './api.ts';
import type { Login } from './api.ts';
import { emptyModel, kinds, withChange } from './model.ts';
import type { Kind, Model, ObjectOf } from './model.ts';

/**
 * Whether the shown model follows the control plane (`live`), may be old (`lost`), the session has ended (`ended`), or
 * the user must choose another password before anything is shown (`reset`).
 */
export type Liveness = 'connecting' | 'live' | 'lost' | 'ended' | 'reset';

/** What happened to one object, as the stream sends it. */
type Change = {
  [K in Kind]: { type: 'change'; kind: K; id: string } & ({ op: 'put'; object: ObjectOf<K> } | { op: 'delete' });
}[Kind];
type Frame = { type: 'ready' | 'gap' | 'ping' | 'end' } | Change;

const firstRetryMs = 500;
const maxRetryMs = 15_000;
/** Deployments of each application that are kept. */
const keptDeployments = 20;

/**
 * The objects that the user may see, kept up to date by `/ws/watch`. The stream is opened first, and its changes wait
 * while the lists are read, so that none is missed. After a gap or a lost connection both start again. `undefined`: not
 * read yet.
 */
export function useLiveModel(login: Login): { model: Model | undefined; liveness: Liveness } {
  const [model, setModel] = useState<Model>();
  const [liveness, setLiveness] = useState<Liveness>('connecting');
  useEffect(() => {
    const follower = new Follower(login, setModel, setLiveness);
    return () => follower.close();
  }, [login]);
  return { model, liveness };
}

class Follower {
  readonly #login: Login;
  readonly #setModel: (model: Model) => void;
  readonly #setLiveness: (liveness: Liveness) => void;
  #model = emptyModel();
  #socket: WebSocket | undefined;
  #retryMs = firstRetryMs;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #paint: number | undefined;
  #closed = false;

  constructor(login: Login, setModel: (model: Model) => void, setLiveness: (liveness: Liveness) => void) {
    this.#login = login;
    this.#setModel = setModel;
    this.#setLiveness = setLiveness;
    this.#connect();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    if (this.#paint !== undefined) cancelAnimationFrame(this.#paint);
    this.#socket?.close();
  }

  #connect(): void {
    openSocket(this.#login, '/ws/watch', { kinds: kinds.join(',') }).then(
      (socket) => this.#follow(socket),
      (error: unknown) => {
        if (this.#closed) return;
        if (error instanceof Refused && error.status === 401) this.#setLiveness('ended');
        else if (error instanceof Refused && error.reason === 'password_reset_required') this.#setLiveness('reset');
        else this.#lost(0);
      },
    );
  }

  #follow(socket: WebSocket): void {
    this.#socket = socket;
    if (this.#closed) socket.close();
    /** Changes that arrived before the lists were read. */
    let early: Change[] | undefined = [];
    socket.addEventListener('message', ({ data }) => {
      const frame = JSON.parse(String(data)) as Frame; // the stream sends no other
      if (frame.type === 'ready')
        this.#readLists().then(
          (model) => {
            if (this.#closed || this.#socket !== socket) return;
            this.#model = model;
            for (const one of early ?? []) this.#apply(one);
            early = undefined;
            this.#retryMs = firstRetryMs;
            this.#setLiveness('live');
            this.#show();
          },
          (error: unknown) => {
            if (error instanceof Refused && error.status === 401) this.#setLiveness('ended');
            socket.close();
          },
        );
      else if (frame.type === 'gap') socket.close();
      else if (frame.type === 'change') {
        if (early === undefined) {
          this.#apply(frame);
          this.#show();
        } else early.push(frame);
      }
    });
    socket.addEventListener('close', ({ code }) => this.#lost(code));
  }

  #lost(code: number): void {
    if (this.#closed) return;
    if (code === 4401) {
      this.#setLiveness('ended');
      return;
    }
    this.#setLiveness('lost');
    // a refused upgrade shows no status to a page: the next request for a list does
    this.#timer = setTimeout(
      () => {
        this.#retryMs = Math.min(maxRetryMs, this.#retryMs * 2);
        list(this.#login, '/api/v1/projects', 1).then(
          () => this.#connect(),
          (error: unknown) => {
            if (error instanceof Refused && error.status === 401) this.#setLiveness('ended');
            else this.#lost(0);
          },
        );
      },
      this.#retryMs * (0.5 + Math.random() / 2),
    );
  }

  async #readLists(): Promise<Model> {
    const [projects, servers, applications, volumes] = await Promise.all([
      list(this.#login, '/api/v1/projects', 1000),
      list(this.#login, '/api/v1/servers', 1000),
      list(this.#login, '/api/v1/applications', 5000),
      list(this.#login, '/api/v1/volumes', 5000),
    ]);
    const environments = await Promise.all(
      projects.map(({ id }) =>
        list(this.#login, '/api/v1/projects/{projectId}/environments', 1000, { path: { projectId: id } }),
      ),
    );
    return {
      project: byId(projects),
      server: byId(servers),
      application: byId(applications),
      environment: byId(environments.flat()),
      deployment: new Map(),
      // no page shows them
      database: new Map(),
      volume: byId(volumes),
      // no page shows them
      run: new Map(),
      // no page shows them, and only admins of the tenant may read their list
      ssh_key: new Map(),
      git_credential: new Map(),
      // no page shows them
      git_webhook: new Map(),
      preview: new Map(),
      template: new Map(),
      template_instance: new Map(),
      registry: new Map(),
      backup_destination: new Map(),
      backup_schedule: new Map(),
      backup: new Map(),
      restore: new Map(),
    };
  }

  #apply(change: Change): void {
    const { kind, id } = change;
    this.#model = withChange(this.#model, kind, id, change.op === 'put' ? change.object : undefined);
    if (kind === 'deployment' && change.op === 'put') this.#forgetDeployments(change.object);
  }

  #forgetDeployments({ application_id }: ObjectOf<'deployment'>): void {
    const own = [...this.#model.deployment.values()].filter((one) => one.application_id === application_id);
    for (const old of own.toSorted((a, b) => b.number - a.number).slice(keptDeployments))
      this.#model = withChange(this.#model, 'deployment', old.id, undefined);
  }

  /** Updates the page at most once per frame of the screen, for any number of changes. */
  #show(): void {
    this.#paint ??= requestAnimationFrame(() => {
      this.#paint = undefined;
      this.#setModel(this.#model);
    });
  }
}

function byId<T extends { id: string }>(objects: readonly T[]): Map<string, T> {
  return new Map(objects.map((one) => [one.id, one]));
}
