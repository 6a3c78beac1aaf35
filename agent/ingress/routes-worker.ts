import { blankReport } from '../../agent-protocol/assignment.ts';
import type { WireAssignment, WireReport, WireRoutes } from '../../agent-protocol/assignment.ts';
import type { FailureCode } from '../../agent-protocol/failure-codes.ts';
import type { Worker, WorkerDeps } from '../desired/worker.ts';
import type { ServerIngress } from './server-ingress.ts';

type RoutesItem = WireAssignment & { spec: WireRoutes };

/** What all workers of routes share. */
export interface RoutesDeps extends WorkerDeps {
  ingress: Pick<ServerIngress, 'setRoutes' | 'standOf' | 'isRid'>;
}

/** Hands the routes of one application to the proxy of the server, and reports what became of them. */
export class RoutesWorker implements Worker {
  readonly id: string;
  /** Always false: routes write no lines. */
  readonly ended = false;
  readonly #deps: RoutesDeps;
  #desired: RoutesItem | undefined;
  #set = '';
  #report: WireReport | undefined;

  constructor(id: string, deps: RoutesDeps) {
    this.id = id;
    this.#deps = deps;
  }

  get report(): WireReport | undefined {
    return this.#report;
  }

  get settled(): boolean {
    return this.#report !== undefined;
  }

  start(): void {
    this.wake();
  }

  desire(desired: WireAssignment | undefined): void {
    this.#desired = desired?.spec.type === 'routes' ? { ...desired, spec: desired.spec } : undefined;
    const wanted = this.#desired?.run === 'running' ? this.#desired : undefined;
    // those of a deleted application are stopped, and then dropped; others are only dropped
    const forgotten = this.#desired?.run === 'stopped' ? this.#desired.spec.routes.map(({ host }) => host) : [];
    const next = JSON.stringify([wanted?.spec.routes ?? null, forgotten]);
    if (next !== this.#set) {
      const routes = wanted && { workload: wanted.workload_id, routes: wanted.spec.routes };
      this.#deps.ingress.setRoutes(this.id, routes, forgotten);
    }
    this.#set = next;
    this.wake();
  }

  wake(): void {
    const report = this.#next();
    if (report === undefined || JSON.stringify(report) === JSON.stringify(this.#report)) return;
    this.#report = report;
    this.#deps.reported(report);
  }

  acknowledged(): void {
    // Routes have no events.
  }

  overflowed(): void {
    // Routes have no container.
  }

  [Symbol.asyncDispose](): Promise<void> {
    return Promise.resolve();
  }

  #next(): WireReport | undefined {
    const { desired: set, ingress } = this.#deps;
    const generation = this.#desired?.generation ?? set.tombstone(this.id)?.generation ?? this.#report?.generation ?? 0;
    const blank = blankReport({ id: this.id, generation });
    if (this.#desired === undefined) {
      const isKnownGone = set.tombstone(this.id) !== undefined || (set.confirmed && !set.has(this.id));
      return isKnownGone && ingress.isRid(this.id) ? { ...blank, phase: 'stopped', gone: true } : undefined;
    }
    if (this.#desired.run === 'stopped')
      return ingress.isRid(this.id) ? { ...blank, phase: 'stopped' } : { ...blank, phase: 'stopping' };
    const stand = ingress.standOf(this.id);
    switch (stand.is) {
      case 'loaded':
        return { ...blank, phase: 'running', ready: true, stable: true, certificates: [...stand.certificates] };
      case 'refused': {
        const message = `The proxy of the server does not take these routes, and leaves them out: ${stand.why}`;
        return { ...blank, phase: 'failed', error: { code: 'route_refused' satisfies FailureCode, message } };
      }
      case 'pending':
        return { ...blank, phase: 'pending' };
      case 'unavailable': {
        const message =
          'The proxy of the server does not run, or does not take its settings, so that no domain leads to the application';
        return { ...blank, phase: 'pending', error: { code: 'ingress_unavailable' satisfies FailureCode, message } };
      }
    }
  }
}
