import type { DeepReadonly } from '../../store/deep-readonly.ts';
import { effectsOfChange, effectsOfDeletion, effectsOfReplacement } from '../../store/declared/effects.ts';
import type { Effects } from '../../store/declared/effects.ts';
import { comparable, declarationOf, fieldPlan } from '../../store/declared/field-plan.ts';
import type { FieldPlan } from '../../store/declared/field-plan.ts';
import { referencesPath } from '../../store/declared/leaves.ts';
import { defined } from '../../store/defined.ts';
import { foldName } from '../../store/fold-name.ts';
import { isOutdated } from '../../store/instance-progress.ts';
import { jsonEqual } from '../../store/json-equal.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { maxFormers, maxRevisionBytes } from '../../store/kinds/template-instance.ts';
import type { Former, InstanceChild } from '../../store/kinds/template-instance.ts';
import type { TenantView } from '../../store/mirror.ts';
import { plainCopy } from '../../store/plain-copy.ts';
import { referenceText } from '../../store/references.ts';
import { isDeleting, isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { usersInWords, usersOutside } from '../../store/users-outside.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { conflicting } from '../ground/api-error.ts';
import type { Plan, PlannedStep } from '../resources/plan.ts';
import type { Place } from '../workloads/place.ts';
import { declare, formerKey, openedValues } from './plan.ts';

type Desired = DesiredOf<'template_instance'>;
type Instance = ReadonlyResource<'template_instance'>;
type Child = DeepReadonly<InstanceChild>;

/** The revision that an instance is to have. */
export interface Wanted extends Pick<Former, 'template_id' | 'template_name'> {
  content: string;
  /** What values are taken from that are not given. */
  variables: DeepReadonly<Desired['variables']>;
  given: Readonly<Record<string, string>>;
}

export interface PlannedChange {
  steps: PlannedStep[];
  /** Writes the revision into the state of the instance; it writes nothing if there is nothing to change. */
  write: (draft: Desired) => void;
  changes: boolean;
  /** Objects of former revisions that are still there, and which this one keeps: they are to stay until it is written. */
  adopted: readonly ReadonlyResource<InstanceChild['kind']>[];
}

/**
 * What it takes to bring an instance to another revision: its text is declared anew with its values, each child that is there
 * stays what it is, and the difference is planned field by field. @throws ApiError
 */
export async function planChange(
  ctx: RequestContext,
  it: Instance,
  place: Place,
  wanted: Wanted,
): Promise<PlannedChange> {
  const { view } = ctx;
  const { desired, meta } = it;
  const left = leftBehind(it, view);
  const isPresent = isPresentRevision(ctx, it, wanted);
  const formers = formersFor(ctx, it, { left, isPresent });
  const declared = await declare(ctx, {
    id: meta.id,
    name: desired.name,
    place,
    content: wanted.content,
    given: wanted.given,
    former: { values: openedValues(ctx, meta.id, wanted.variables), children: formers },
  });
  const revision = (desired.revision ?? 1) + 1;
  const next: InstanceChild[] = [];
  const steps: PlannedStep[] = [];
  /** What references of variables to objects that are new begin with. */
  const others = new Set<string>();
  for (const child of declared.children) {
    const former = formers.get(formerKey(child));
    const isAdopted = former !== undefined && left.includes(former);
    const { step, child: planned } = planChild(ctx, it, { child, former, isAdopted, revision, others });
    steps.push(step);
    const isNew = step.action === 'create' || step.action === 'replace';
    if (isNew && child.kind !== 'volume' && child.kind !== 'function') others.add(beginningOf(child));
    next.push(planned);
  }
  const kept = new Set(declared.children.map(formerKey));
  for (const [key, former] of [...formers].toReversed())
    // the present revision has said already what becomes of what it left behind
    if (!kept.has(key) && !(isPresent && left.includes(former)))
      steps.push({ ...stepOf(former, 'delete', view.get(former.kind, former.id)), ...effectsOfDeletion(former.kind) });
  requireMounts(view, next);
  const variables = sameValues(ctx, desired.variables, declared.variables);
  const { template_id, template_name, content } = wanted;
  const version = declared.template_version;
  const now = { template_id, template_name, content, variables };
  const isSame =
    steps.every(({ action }) => action === 'unchanged') &&
    jsonEqual(now, {
      template_id: desired.template_id,
      template_name: desired.template_name,
      content: desired.content,
      variables: desired.variables,
    });
  return {
    steps,
    changes: !isSame,
    adopted: next.flatMap(({ kind, id }) => (left.some((one) => one.id === id) ? (view.get(kind, id) ?? []) : [])),
    write(draft) {
      if (isSame) return;
      draft.formers = formersOf(desired, content, ctx.clock.now());
      Object.assign(draft, now, { children: next, revision });
      if (version === undefined) delete draft.template_version;
      else draft.template_version = version;
    },
  };
}

/** What the instance still owns of former revisions, as children by the names that it has. */
function leftBehind({ meta, desired: { name: instance, children } }: Instance, view: TenantView): readonly Child[] {
  const present = new Set(children.map(({ id }) => id));
  const isLeft = (it: ReadonlyResource): boolean => isStaying(it) && !present.has(it.meta.id);
  const { id } = meta;
  const as = (it: { readonly meta: { readonly id: string }; readonly desired: { readonly name: string } }) => ({
    id: it.meta.id,
    key: keyOfName(it.desired.name, instance),
    wave: 0,
  });
  return [
    ...view
      .by('volume', 'template_instance', id)
      .filter(isLeft)
      .map((it) => ({ kind: 'volume' as const, ...as(it), desired: it.desired })),
    ...view
      .by('database', 'template_instance', id)
      .filter(isLeft)
      .map((it) => ({ kind: 'database' as const, ...as(it), desired: it.desired })),
    ...view
      .by('application', 'template_instance', id)
      .filter(isLeft)
      .map((it) => ({ kind: 'application' as const, ...as(it), desired: it.desired })),
    ...view
      .by('function', 'template_instance', id)
      .filter(isLeft)
      .map((it) => ({ kind: 'function' as const, ...as(it), desired: it.desired })),
  ];
}

/** What a template calls an object that has this name in the instance. */
function keyOfName(name: string, instance: string): string {
  const [folded, prefix] = [foldName(name), `${foldName(instance)}-`];
  return folded.startsWith(prefix) ? folded.slice(prefix.length) : folded;
}

/** Whether the text and the values are those that the instance has. */
function isPresentRevision(ctx: RequestContext, { meta, desired }: Instance, wanted: Wanted): boolean {
  if (wanted.content !== desired.content || !jsonEqual(wanted.variables, desired.variables)) return false;
  const values = openedValues(ctx, meta.id, desired.variables);
  return Object.entries(wanted.given).every(([name, text]) => values.get(name)?.text === text);
}

/**
 * What stays what it is if it is declared, by kind and key: present children, and what is left of former revisions before a
 * child that is still to come. The rest of what is left is there by its id, so that its names count as own.
 */
function formersFor(
  ctx: RequestContext,
  it: Instance,
  { left, isPresent }: { left: readonly Child[]; isPresent: boolean },
): Map<string, Child> {
  const present = it.desired.children.filter((child) => isThereOrToCome(it, child, ctx));
  const formers = new Map(present.map((child) => [formerKey(child), child]));
  for (const one of left) {
    const other = formers.get(formerKey(one));
    const isFree = other === undefined || ctx.view.get(other.kind, other.id) === undefined;
    formers.set(!isPresent && isFree ? formerKey(one) : `${one.kind}/${one.id}`, one);
  }
  return formers;
}

/**
 * One application mounts a volume, and only one instance of it if it may write: judged by what is there, which people may have
 * changed. @throws ApiError CONFLICT
 */
function requireMounts(view: TenantView, children: readonly InstanceChild[]): void {
  for (const child of children) {
    if (child.kind !== 'application') continue;
    const { id, key, changes = [], desired } = child;
    const live = view.get('application', id)?.desired;
    if (live !== undefined && !changes.includes('mounts') && !changes.includes('replicas')) continue;
    const mounts = live === undefined || changes.includes('mounts') ? desired.mounts : live.mounts;
    const replicas = live === undefined || changes.includes('replicas') ? desired.replicas : live.replicas;
    for (const { volume_id } of mounts) requireUnmounted(view, children, { id, key, volume_id });
    if (replicas > 1 && mounts.some(({ read_only }) => !read_only))
      throw conflicting(
        `Application ${key} has ${replicas} replicas and would write to a volume: scale it to 1 first, or declare replicas: 1`,
      );
  }
}

/** @throws ApiError CONFLICT if something else mounts a volume, and this change does not end that */
function requireUnmounted(
  view: TenantView,
  children: readonly InstanceChild[],
  { id, key, volume_id }: { id: string; key: string; volume_id: string },
): void {
  const [user] = view.by('function', 'volume', volume_id);
  if (user !== undefined)
    throw conflicting(
      `Application ${key} cannot mount a volume that function ${user.desired.name} mounts: unbind it there first`,
    );
  for (const { meta, desired } of view.by('application', 'volume', volume_id)) {
    if (meta.id === id) continue;
    const other = children.find((it) => it.id === meta.id);
    const isEnding =
      other?.kind === 'application' &&
      other.changes?.includes('mounts') === true &&
      other.desired.mounts.every((mount) => mount.volume_id !== volume_id);
    if (!isEnding)
      throw conflicting(
        `Application ${key} cannot mount a volume that application ${desired.name} mounts: unbind it there first`,
      );
  }
}

/** One that somebody deleted is made anew. */
function isThereOrToCome({ observed }: Instance, { kind, id }: Child, { view }: RequestContext): boolean {
  const live = view.get(kind, id);
  return live === undefined ? observed?.made.includes(id) !== true : !isDeleting(live);
}

function stepOf(
  { kind, key, wave, desired }: Child,
  action: PlannedStep['action'],
  live: ReadonlyResource | undefined,
): PlannedStep {
  return {
    action,
    kind,
    key: `${kind}s.${key}`,
    name: desired.name,
    renamed_from: null,
    id: live?.meta.id ?? null,
    wave,
    fields: [],
    interrupts: null,
    loses_data: null,
    waits_for: null,
  };
}

function planChild(
  { view, sealer, tenant }: RequestContext,
  it: Instance,
  {
    child,
    former,
    isAdopted,
    revision,
    others,
  }: {
    child: InstanceChild;
    former: Child | undefined;
    /** What was declared of it is not known any more. */
    isAdopted: boolean;
    revision: number;
    others: ReadonlySet<string>;
  },
): { step: PlannedStep; child: InstanceChild } {
  const live = former && view.get(former.kind, former.id);
  if (former === undefined) return { step: stepOf(child, 'create', undefined), child };
  if (live !== undefined && former.id !== child.id) requireReplaceable(view, live);
  if (former.id !== child.id)
    return { step: { ...stepOf(child, 'replace', live), ...effectsOfReplacement(child.kind) }, child };
  const found = fieldPlan(
    child.kind,
    {
      former: isAdopted ? undefined : declarationOf(former.desired, former.declared),
      wanted: declarationOf(child.desired, child.declared),
      live: comparable(live?.desired ?? former.desired, child.desired),
    },
    (one, other) => sealer.isSame(tenant, one, other),
  ).filter(({ declaration }) => declaration === 'declared');
  const writes = found.filter(({ isWrite }) => isWrite);
  const refersAnew = live !== undefined && refersToAny(child, others);
  if (found.length === 0 && !refersAnew && !isAdopted) {
    const { wave, declared } = child;
    return {
      step: stepOf(child, 'unchanged', live),
      child: { ...plainCopy<InstanceChild>(former), wave, ...defined({ declared }) },
    };
  }
  const anew = refersAnew ? [referencesPath] : [];
  const paths = [...writes.map(({ path }) => path), ...anew];
  const effects: Effects = effectsOfChange(child.kind, paths, child.desired);
  // what an earlier revision had still to write is written by this one
  const pending = live !== undefined && isOutdated(it, former) ? (former.changes ?? []) : [];
  const changes = [...new Set([...pending, ...anew, ...found.map(({ path }) => path)])];
  const fields = writes.filter(({ path }) => path !== referencesPath).map(shownField);
  return {
    step: { ...stepOf(child, live === undefined ? 'create' : 'update', live), fields, ...effects },
    child: { ...child, revision, changes },
  };
}

/** @throws ApiError CONFLICT naming what uses an object that another one is to have the place of */
function requireReplaceable(view: TenantView, live: ReadonlyResource<InstanceChild['kind']>): void {
  const users = usersOutside(view, live);
  if (users.length > 0)
    throw conflicting(
      `${live.meta.kind} ${live.desired.name} cannot be replaced as it is used by ${usersInWords(users)}: change the variables there first`,
    );
}

/** What each reference to a child begins with. */
function beginningOf({ kind, desired }: InstanceChild): string {
  const of = kind === 'database' ? 'databases' : 'applications';
  return referenceText({ kind: of, name: desired.name, attribute: '' }).slice(0, -1);
}

/** Whether variables of an application or a function take something of these objects. */
function refersToAny(child: InstanceChild, others: ReadonlySet<string>): boolean {
  if (child.kind !== 'application' && child.kind !== 'function') return false;
  const references = child.desired.config.references ?? [];
  return references.some((text) => [...others].some((prefix) => text.startsWith(prefix)));
}

function shownField({ field, before, after, isSecret, isForeign }: FieldPlan): PlannedStep['fields'][number] {
  return { field, before, after, secret: isSecret, by_hand: isForeign, declared_by: null };
}

/** Values that hold the same text keep their ciphertext. */
function sameValues(
  { sealer, tenant }: RequestContext,
  before: DeepReadonly<Desired['variables']>,
  after: Desired['variables'],
): Desired['variables'] {
  return Object.fromEntries(
    Object.entries(after).map(([name, one]) => {
      const was = Object.hasOwn(before, name) ? before[name] : undefined;
      const isSame = was !== undefined && sealer.isSame(tenant, was.value, one.value);
      return [name, isSame ? { ...one, value: { ...was.value } } : one];
    }),
  );
}

/** The former revisions once this one is one of them, as many as there is room for. */
function formersOf(desired: DeepReadonly<Desired>, nextContent: string, now: Date): Former[] {
  const { content } = desired;
  const present: Former = {
    revision: desired.revision ?? 1,
    template_id: desired.template_id,
    template_name: desired.template_name,
    ...defined({ template_version: desired.template_version }),
    variables: plainCopy<Desired['variables']>(desired.variables),
    ...defined({ content: content === nextContent ? undefined : content }),
    until: now.toISOString(),
  };
  // a revision of an earlier release has no text to return to
  const known = content === undefined ? [] : [present, ...plainCopy<Former[]>(desired.formers ?? [])];
  let bytes = Buffer.byteLength(nextContent);
  const kept: Former[] = [];
  for (const one of known.slice(0, maxFormers)) {
    bytes += Buffer.byteLength(JSON.stringify(one));
    if (bytes > maxRevisionBytes) break;
    kept.push(one);
  }
  return kept;
}

/** The text of a former revision. */
export function contentOfFormer(desired: DeepReadonly<Desired>, revision: number): string | undefined {
  let content = desired.content;
  for (const one of desired.formers ?? []) {
    content = one.content ?? content;
    if (one.revision === revision) return content;
  }
  return undefined;
}

/** @throws ApiError CONFLICT naming each step that loses data and is not forced */
export function requireForce(steps: readonly PlannedStep[], force: readonly string[]): void {
  const missing = needsForce(steps).filter((key) => !force.includes(key));
  if (missing.length === 0) return;
  const message = `It loses data: ${steps
    .filter(({ key }) => missing.includes(key))
    .map(({ key, action, name }) => `${key} (${action} ${name})`)
    .join(', ')}. Look at the plan with dry_run, then name each of them in force`;
  throw conflicting(
    message,
    missing.map((key) => ({ field: 'force', reason: 'force_needed', message: `${key} loses data` })),
  );
}

function needsForce(steps: readonly PlannedStep[]): string[] {
  return steps.filter(({ loses_data }) => loses_data !== null).map(({ key }) => key);
}

export function planOf({ steps, changes }: PlannedChange, isDryRun: boolean): Plan {
  return { dry_run: isDryRun, changes, steps, needs_force: needsForce(steps) };
}
