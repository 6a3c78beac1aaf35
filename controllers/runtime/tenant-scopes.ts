import type { KindName } from '../../store/kinds/kinds.ts';
import type { ContextScope } from './context.ts';
import type { Controller } from './controller.ts';
import { GuardedView } from './guarded-view.ts';
import type { Term } from './leader.ts';
import type { LoopDeps } from './loop-deps.ts';
import type { Since } from './since.ts';

/** What the runs of a controller may see and write within a term: one scope per tenant. */
export function createScopes<K extends KindName>(
  controller: Controller<K>,
  term: Term,
  deps: LoopDeps,
  since: Since,
): (tenant: string) => ContextScope {
  const scopes = new Map<string, ContextScope>();
  return (tenant) => {
    let scope = scopes.get(tenant);
    if (scope !== undefined) return scope;
    const { name, kind, reads, children, notifies = [] } = controller;
    const { mirror, clock, metrics, event, notify, repository, expiryTime } = deps;
    const world = mirror.tenant(tenant);
    const readable = new Set<KindName>([kind, ...reads]);
    scope = {
      controller: name,
      children: new Set(children),
      declared: new Set<KindName>([...readable, ...children]),
      repository: repository(tenant),
      view: new GuardedView(world, name, readable),
      world,
      reached: (revision, signal) => mirror.reached(revision, signal),
      fence: term.fence,
      clock,
      since: (key, condition, isOn) => since.ms(key, condition, isOn),
      expiryTime,
      wrote: (operation) => metrics.wrote(name, operation),
      event,
      notify,
      notifies: new Set('never' in notifies ? [] : notifies),
    };
    scopes.set(tenant, scope);
    return scope;
  };
}
