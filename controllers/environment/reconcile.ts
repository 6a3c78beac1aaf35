import { contentOf, copiedKinds, copyDesired, copyRuleOf, isUnfinishedClone } from '../../store/copying.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Transplanter } from '../../store/seal.ts';
import type { ChildUnit, Context, Controller, Next, Verdict, Wake } from '../runtime/controller.ts';
import { Failure } from '../runtime/failure.ts';
import { describe, planClone, replacements, sourceOf } from './plan.ts';
import type { Action } from './plan.ts';

type Environment = ReadonlyResource<'environment'>;

/**
 * An environment that is no clone has nothing to converge to while it lives. A clone is filled, one transaction a run,
 * until it has all that its source has at one revision. Deleting waits for what is in it.
 */
export function environmentController(transplanter: Transplanter): Controller<'environment'> {
  return {
    name: 'environment',
    kind: 'environment',
    reads: ['project', 'server', ...copiedKinds],
    children: ['environment', ...copiedKinds],
    wakes: copiedKinds.map(wakeByContent),
    async reconcile(it, ctx) {
      if (!isUnfinishedClone(it)) return active();
      const { action, copied, total } = planClone(it, ctx.view);
      // the first look only tells what there is to do, so that whatever fails later can be told as well
      if (it.observed !== undefined) await perform(it, action, ctx);
      return cloning(`${copied} of ${total} objects are copied`, nextOf(action));
    },
    async finalize(it, ctx) {
      const left = contentOf(ctx.view, it.meta.id);
      for (const { meta } of left) if (meta.deletionRequestedAt === undefined) await ctx.retire(meta.kind, meta.id);
      return { ...deleting(it, left, ctx), released: left.length === 0 };
    },
  };

  async function perform(it: Environment, action: Action, ctx: Context): Promise<void> {
    switch (action.do) {
      case 'abandon':
        await abandon(it, action, ctx);
        return;
      case 'remove':
        await ctx.transact((unit) => {
          unit.require(it as ReadonlyResource); // an environment is an object
          for (const copy of action.copies) unit.requestDelete(copy);
        });
        return;
      case 'copy':
        await ctx.transact((unit) => copyInto(unit, it, action, ctx));
        return;
      case 'complete':
        await ctx.amend('environment', it.meta.id, (draft) => {
          if (draft.clone_of !== undefined) draft.clone_of.complete = true;
        });
        return;
      case 'await':
    }
  }

  /** The clone and the servers are guarded: no copy is born to what goes meanwhile. */
  function copyInto(
    unit: ChildUnit,
    it: Environment,
    { sources, servers }: Extract<Action, { do: 'copy' }>,
    ctx: Context,
  ): void {
    const ids = replacements(it, contentOf(ctx.view, it.desired.clone_of?.environment_id ?? ''));
    unit.require(it as ReadonlyResource); // as above
    for (const server of servers) unit.require(server as ReadonlyResource); // as above
    for (const source of sources) copyOne(unit, source, ids, ctx);
  }

  function copyOne(unit: ChildUnit, source: ReadonlyResource, ids: ReadonlyMap<string, string>, ctx: Context): void {
    const { kind, id, labels, desiredRevision } = source.meta;
    const rule = copyRuleOf(kind);
    const copyId = ids.get(id);
    if (rule === undefined || copyId === undefined) return;
    let desired;
    try {
      const copying = {
        tenant: ctx.tenant,
        kind,
        id,
        desired: source.desired,
        copyId,
        idOf: (of: string) => ids.get(of),
      };
      desired = copyDesired(rule, copying, transplanter);
    } catch (cause) {
      throw new Failure('SecretUnreadable', `Cannot copy ${describe(source)} as a secret of it does not open`, {
        cause,
      });
    }
    // the rule of a kind makes a state of the kind, which `create` parses
    unit.create(kind, copyId, desired as never, { labels, copyOf: { id, revision: desiredRevision } });
  }
}

/** The clone goes, and whoever may see the project is told why. */
async function abandon(it: Environment, { reason, message }: { reason: string; message: string }, ctx: Context) {
  const project = ctx.view.get('project', it.desired.project_id) as ReadonlyResource | undefined; // of some kind
  if (project !== undefined && project.meta.deletionRequestedAt === undefined) {
    ctx.event(project, { type: 'warning', reason, about: it.meta.id, message });
    const notification = { type: 'clone_removed', severity: 'warning', title: 'Clone removed', message } as const;
    await ctx.notify(project, `clone/${it.meta.id}`, notification);
  }
  await ctx.retire('environment', it.meta.id);
}

function nextOf(action: Action): Next {
  if (action.do !== 'await') return { again: 0, because: 'more is to be copied' };
  return {
    waitingFor: action.copies.map(({ meta: { kind, id } }) => ({ kind, id })),
    because: 'copies of what was changed to be gone',
  };
}

function active(): Verdict<'environment'> {
  return {
    observed: { phase: 'active' },
    conditions: [{ type: 'Ready', status: 'true', reason: 'Active', message: 'Ready for use' }],
    next: { settled: true },
  };
}

function cloning(message: string, next: Next): Verdict<'environment'> {
  return {
    observed: { phase: 'active' },
    conditions: [{ type: 'Ready', status: 'false', reason: 'Cloning', message }],
    next,
  };
}

function deleting(it: Environment, left: readonly ReadonlyResource[], { view }: Context): Verdict<'environment'> {
  const isAbandoned = isUnfinishedClone(it) && sourceOf(it, view) === undefined;
  const counts = [...Map.groupBy(left, ({ meta }) => meta.kind)].map(([kind, all]) => `${all.length} ${kind}(s)`);
  const waits = `Waits for ${counts.join(', ')} to go`;
  const [reason, message] = isAbandoned
    ? ['SourceDeleted', `The environment that it copies was deleted before it was complete. ${waits}`]
    : ['Deleting', waits];
  return {
    observed: { phase: 'deleting' },
    conditions: [{ type: 'Ready', status: 'false', reason, message }],
    next:
      left.length === 0
        ? { settled: true }
        : { waitingFor: left.map(({ meta: { kind, id } }) => ({ kind, id })), because: 'what is in it to be gone' },
  };
}

/** What is gone makes room for its next copy, and for the end of the environment. */
function wakeByContent(kind: (typeof copiedKinds)[number]): Wake<'environment'> {
  return {
    kind,
    ids: ({ before, after }) =>
      after === undefined && before !== undefined && 'environment_id' in before.desired
        ? [before.desired.environment_id]
        : [],
  };
}
