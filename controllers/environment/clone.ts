import { copiedFrom, copyDesired, CopyLack, copyRuleOf } from '../../store/copying.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Transplanter } from '../../store/seal.ts';
import type { ChildUnit, Context, Next, Verdict } from '../runtime/controller.ts';
import { Failure } from '../runtime/failure.ts';
import { dataIn } from './data.ts';
import { describe, planClone, replacements } from './plan.ts';
import type { Action } from './plan.ts';

type Environment = ReadonlyResource<'environment'>;

/** Brings a clone one transaction nearer to its source, and returns a verdict with its progress. */
export async function advanceClone(
  it: Environment,
  ctx: Context,
  transplanter: Transplanter,
): Promise<Verdict<'environment'>> {
  const { action, copied, total } = planClone(it, ctx.view);
  // the first run only reports what there is to do: conditions must exist before a later failure can be shown in them
  if (it.observed !== undefined) await perform(it, action, ctx, transplanter);
  const message = `${copied} of ${total} objects are copied`;
  return {
    observed: { phase: 'active' },
    conditions: [{ type: 'Ready', status: 'false', reason: 'Cloning', message }],
    next: nextOf(action),
  };
}

async function perform(it: Environment, action: Action, ctx: Context, transplanter: Transplanter): Promise<void> {
  switch (action.do) {
    case 'abandon':
      await abandon(it, action, ctx);
      return;
    case 'remove':
      await ctx.transact((unit) => {
        unit.require(it);
        for (const copy of action.copies) unit.requestDelete(copy);
      });
      return;
    case 'copy':
      await ctx.transact((unit) => copyInto(unit, it, action, ctx, transplanter));
      return;
    case 'complete':
      await ctx.amend('environment', it.meta.id, (draft) => {
        if (draft.clone_of === undefined) return;
        draft.clone_of.complete = true;
        if (draft.clone_of.data === undefined) return;
        draft.clone_of.data.left = dataIn(ctx.view, draft.clone_of.environment_id);
        draft.clone_of.data.total = draft.clone_of.data.left.length;
      });
      return;
    case 'await':
  }
}

/** Guards the clone and the servers, so that no copy is created for one that is deleted meanwhile. */
function copyInto(
  unit: ChildUnit,
  it: Environment,
  { sources, servers }: Extract<Action, { do: 'copy' }>,
  ctx: Context,
  transplanter: Transplanter,
): void {
  const ids = replacements(it, copiedFrom(ctx.view, it.desired.clone_of?.environment_id ?? ''));
  unit.require(it);
  for (const server of servers) unit.require(server);
  for (const source of sources) {
    const { kind, id, labels, desiredRevision } = source.meta;
    const copyId = ids.get(id);
    if (copyId === undefined) throw new Error(`Cannot copy ${kind} as it is not in the source of the clone: ${id}`);
    const desired = copied(source, copyId, ids, transplanter);
    // the rule of a kind makes a state of the kind, which `create` parses
    unit.create(kind, copyId, desired as never, { labels, copyOf: { id, revision: desiredRevision } });
  }
}

function copied(
  it: ReadonlyResource,
  copyId: string,
  ids: ReadonlyMap<string, string>,
  transplanter: Transplanter,
): unknown {
  const { tenant, kind, id } = it.meta;
  const rule = copyRuleOf(kind);
  if (rule === undefined) throw new Error(`Cannot copy ${kind} as its definition has no rule for it: ${id}`);
  const source = { tenant, kind, id, desired: it.desired, copyId, idOf: (of: string) => ids.get(of) };
  try {
    return copyDesired(rule, source, transplanter);
  } catch (cause) {
    if (cause instanceof CopyLack)
      throw new Failure(
        'SourceIncomplete',
        `Cannot copy ${describe(it)} as its ${cause.path} leads to nothing that is copied: wait until no restore of it goes on`,
        { cause },
      );
    throw new Failure(
      'SecretUnreadable',
      `Cannot copy ${describe(it)} as one of its secrets cannot be decrypted: restore the key file, or set the secret again`,
      { cause },
    );
  }
}

/** Deletes the clone, and notifies the users who may see the project of the reason. */
async function abandon(it: Environment, { reason, message }: { reason: string; message: string }, ctx: Context) {
  const project = ctx.view.get('project', it.desired.project_id);
  if (isStaying(project)) {
    ctx.event(project, { type: 'warning', reason, about: it.meta.id, message });
    const notification = { type: 'clone_removed', severity: 'warning', title: 'Clone removed', message } as const;
    await ctx.notify(project, `clone/${it.meta.id}`, notification);
  }
  await ctx.retire('environment', it.meta.id);
}

function nextOf(action: Action): Next {
  if (action.do !== 'await') return { again: 0, because: 'the rest to be copied' };
  return {
    waitingFor: action.copies.map(({ meta: { kind, id } }) => ({ kind, id })),
    because: 'copies of what was changed to be gone',
  };
}
