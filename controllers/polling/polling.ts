import { repositoryOf } from '../../store/kinds/application.ts';
import PQueue from 'p-queue';
import { answerOf } from '../../agent-protocol/answer.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import { GitHead } from '../../agent-protocol/messages.ts';
import { committed } from '../../store/commit-failure.ts';
import { isConflict, isUnavailable } from '../../store/errors.ts';
import type { ObjectChange } from '../../store/mirror.ts';
import { isKind } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { OperationFailure } from '../operation/run.ts';
import { refuseForeign } from '../operation/refuse-foreign.ts';
import { aborted } from '../runtime/aborted.ts';
import type { AgentCalls } from '../runtime/agent-calls.ts';
import type { Term } from '../runtime/leader.ts';
import { limits } from '../runtime/limits.ts';
import type { Background, BackgroundDeps } from '../runtime/manager.ts';
import { keyOf, partsOf } from '../runtime/object-key.ts';
import { KeyedQueue, type After } from '../runtime/queue.ts';
import { codesOfAgents, comparisonOf, intervalOf } from './look.ts';
import type { Found } from './look.ts';

/** Durations in milliseconds. */
export const pace = {
  /** Looks at once: half of them of one tenant at most, a third of one project. */
  atOnce: 24,
  /** Looks at once by the agent of one server. */
  perServer: 2,
  /** A look that found the agent busy is tried again within twice this time. */
  busyMs: 2000,
  /** An agent answers by then: git gives up after 30 s. */
  timeoutMs: 35_000,
  /** Share by which the time between two looks varies in both directions. */
  jitter: 0.1,
  /** After failures the time between two looks doubles up to this, unless it is longer anyway. */
  slowestMs: 3_600_000,
} as const;

type App = ReadonlyResource<'application'>;

/**
 * Looks from time to time at the branches that applications follow. A look is a question for the head of the branch and
 * writes nothing. A head that is new leads to a comparison, the operation that webhooks lead to: it decides and deploys.
 * When an application is looked at is in the memory of the leader; a new one begins anew.
 */
export function polling(agents: AgentCalls): Background {
  return {
    name: 'polling',
    async run(term, deps) {
      const { mirror, clock, random, log, metrics } = deps;
      const poll = new Polling(agents, term, deps);
      await using queue = new KeyedQueue({
        name: 'polling',
        concurrency: pace.atOnce,
        // looks wait for git hosts: they take no place of a controller
        pool: new PQueue({ concurrency: pace.atOnce }),
        clock,
        random,
        log,
        run: (key, signal) => poll.look(key, signal),
        pathOf: (key) => poll.pathOf(key),
      });
      using subscriptions = new DisposableStack();
      subscriptions.defer(metrics.observe(queue));
      const add = (app: App, interval: number): void =>
        // the looks of many applications begin at different times
        queue.add(keyOf(app.meta.tenant, app.meta.id), { delayMs: interval * (0.5 + random() / 2) });
      subscriptions.defer(
        mirror.subscribe(({ before, after }: ObjectChange) => {
          if (after === undefined || !isKind(after, 'application')) return;
          const interval = intervalOf(after);
          const was = before !== undefined && isKind(before, 'application') ? intervalOf(before) : undefined;
          if (interval !== undefined && interval !== was) add(after, interval);
        }),
      );
      for (const tenant of mirror.tenants())
        for (const app of mirror.tenant(tenant).list('application')) {
          const interval = intervalOf(app);
          if (interval !== undefined) add(app, interval);
        }
      await aborted(term.signal);
    },
  };
}

class Polling {
  readonly #agents: AgentCalls;
  readonly #term: Term;
  readonly #deps: BackgroundDeps;
  /** Looks in a row that found no head, by application. */
  readonly #failures = new Map<string, number>();
  /** Looks under way, by server. */
  readonly #busy = new Map<string, number>();

  constructor(agents: AgentCalls, term: Term, deps: BackgroundDeps) {
    this.#agents = agents;
    this.#term = term;
    this.#deps = deps;
  }

  /** By which the looks at once are divided: git hosts that hang leave places to others. */
  pathOf(key: string): readonly string[] {
    const { tenant, id } = partsOf(key);
    const app = this.#deps.mirror.tenant(tenant).get('application', id);
    return app === undefined ? [tenant] : [tenant, `${tenant}/${app.desired.project_id}`];
  }

  async look(key: string, signal: AbortSignal): Promise<After> {
    const { tenant, id } = partsOf(key);
    const { mirror, random } = this.#deps;
    const app = mirror.tenant(tenant).get('application', id);
    const interval = app && intervalOf(app);
    if (app === undefined || interval === undefined) {
      this.#failures.delete(key);
      return { after: 'nothing' };
    }
    const server = `${tenant}/${app.desired.server_id}`;
    const busy = this.#busy.get(server) ?? 0;
    if (busy >= pace.perServer) return after(pace.busyMs * (1 + random()));
    this.#busy.set(server, busy + 1);
    try {
      const found = await this.#read(app, signal);
      if (found !== undefined) {
        if ('unreadable' in found) this.#failures.set(key, (this.#failures.get(key) ?? 0) + 1);
        else this.#failures.delete(key);
        await this.#begin(app, found, signal);
      }
    } finally {
      const left = (this.#busy.get(server) ?? 1) - 1;
      if (left > 0) this.#busy.set(server, left);
      else this.#busy.delete(server);
    }
    const slower = interval * 2 ** Math.min(this.#failures.get(key) ?? 0, 10);
    const next = Math.min(slower, Math.max(interval, pace.slowestMs));
    return after(next * (1 - pace.jitter + 2 * pace.jitter * random()));
  }

  /** The head of the branch; `undefined`: the agent could not be asked. */
  async #read(app: App, signal: AbortSignal): Promise<Found | undefined> {
    const { mirror, log } = this.#deps;
    const { tenant } = app.meta;
    const view = mirror.tenant(tenant);
    const { server_id: server } = app.desired;
    const source = repositoryOf(app.desired.source);
    if (source === undefined || view.get('server', server)?.observed?.phase !== 'active') return undefined;
    const { repository_url, branch, git_credential_id } = source;
    try {
      refuseForeign(app, git_credential_id, { ctx: { view } });
      const answer = await this.#agents.call(
        tenant,
        server,
        { method: 'git.head', repository_url, branch, ...(git_credential_id !== undefined && { git_credential_id }) },
        { timeoutMs: pace.timeoutMs, signal },
      );
      return { head: answerOf(GitHead, answer).commit };
    } catch (error) {
      if (signal.aborted) throw error;
      if (error instanceof OperationFailure) return { unreadable: error.code };
      if (error instanceof CallError) return codesOfAgents.has(error.code) ? undefined : { unreadable: error.code };
      log.error(
        { err: error, id: app.meta.id },
        'Cannot look at a branch, which is a bug: it is looked at again later',
      );
      return undefined;
    }
  }

  /** Begins the comparison that the look leads to. A later look makes good what the store does not take. */
  async #begin(app: App, found: Found, signal: AbortSignal): Promise<void> {
    const { mirror, clock, repository, log } = this.#deps;
    const { tenant, id } = app.meta;
    const view = mirror.tenant(tenant);
    const now = view.get('application', id);
    if (now === undefined || intervalOf(now) === undefined) return;
    const comparison = comparisonOf(now, found, view, clock.now());
    if (comparison === undefined) return;
    const unit = repository(tenant).begin();
    unit.guard(this.#term.fence);
    unit.require(now);
    unit.create('operation', comparison.id, comparison.desired);
    signal.throwIfAborted();
    try {
      committed(await unit.commit());
      log.info({ id, ...found }, 'A look at a branch leads to a comparison');
    } catch (error) {
      if (!isConflict(error) && !isUnavailable(error)) throw error;
    }
  }
}

function after(ms: number): After {
  return { after: 'delay', ms, priority: limits.queue.backgroundPriority };
}
