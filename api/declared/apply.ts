import { definitionOf } from '../../store/definition.ts';
import { defined } from '../../store/defined.ts';
import {
  effectsOfChange,
  effectsOfDeletion,
  effectsOfReplacement,
  isOtherDatabase,
} from '../../store/declared/effects.ts';
import { declarationOf, fieldPlan } from '../../store/declared/field-plan.ts';
import type { FieldPlan } from '../../store/declared/field-plan.ts';
import { chosenName, referencesPath } from '../../store/declared/leaves.ts';
import type { DeclaredKind } from '../../store/declared/leaves.ts';
import { textKeyOf } from '../../store/declared/text-key.ts';
import { foldName } from '../../store/fold-name.ts';
import { slugOf } from '../../store/kinds/internal-id.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { grants } from '../../store/grants.ts';
import type { TenantView } from '../../store/mirror.ts';
import { objectsIn } from '../../store/objects-in.ts';
import { isDeleting, isKind, isStaying } from '../../store/resource.ts';
import { markersOf } from '../../store/population.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { sealedEqual } from '../../store/sealed-equal.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { badRequest, conflicting } from '../ground/api-error.ts';
import type { ApiError } from '../ground/api-error.ts';
import type { Plan, PlannedStep } from '../resources/plan.ts';
import type { MountingWorkload } from '../resources/volume.ts';
import { hasTrustedAuthor } from '../rights/own-templates.ts';
import { planChange } from '../templates/change.ts';
import { newInstance } from '../templates/plan.ts';
import { unsealEnv } from '../workloads/application-env.ts';
import { startDeployment } from '../workloads/deploying.ts';
import { referralsInWords, referringByName, referringWorkloads } from '../workloads/env-references.ts';
import { changeMounts, keepVolume, requireMountable } from '../workloads/mounting.ts';
import { requireVolumeRoom } from '../workloads/new-application.ts';
import { newDatabase } from '../workloads/new-database.ts';
import { addFunction, addVersion, applyFunctionFields } from '../workloads/new-function.ts';
import { newHostName } from '../workloads/host-name.ts';
import { requireInstanceRoom } from '../workloads/instance-room.ts';
import { requireUnread } from '../workloads/backing-up.ts';
import { requireUnusedOutside, usedOutside } from '../workloads/instance-users.ts';
import { enterPlace, placeFrom } from '../workloads/place.ts';
import type { Place } from '../workloads/place.ts';
import { holdPopulation } from '../workloads/population.ts';
import { requirePort } from '../workloads/ports.ts';
import { addApplication, changeApplication } from '../workloads/writing-application.ts';
import { requireUnpooled } from '../workloads/pooling.ts';
import { addDatabase, judgeDatabase, requireUnreferred, writeDatabase } from '../workloads/writing-database.ts';
import { addEnvironment, writeEnvironment } from '../workloads/writing-environment.ts';
import { ComingView } from './coming-view.ts';
import { declarationsAfter, formerOf, otherManager } from './declarations.ts';
import type { Applied, Manager } from './declarations.ts';
import { declaredWords, kindOfWord } from './objects.ts';
import type { DeclaredObject, DeclaredOf } from './objects.ts';
import { isReferredTo, keyFor, keyOf } from './read.ts';

export interface Applying extends Manager {
  project: ReadonlyResource<'project'>;
  /** Where objects are that name no environment; absent: in the default one of the project. */
  environment?: ReadonlyResource<'environment'> | undefined;
  /** Other passes may share them: they are never changed. */
  objects: readonly DeclaredObject[];
  /** What the set applied before and does not declare any more is deleted. */
  prune: boolean;
  /** Keys of steps that may lose data, or overwrite what others have set. */
  force: readonly string[];
  /** What others changed of what the manager alone declares is changed back without being forced. */
  corrects?: boolean | undefined;
  /** Applications whose source no deployment has, and functions without their version, are deployed. */
  deploys: boolean;
  /** Those that a person has stopped, too: a deployment starts them. */
  startsStopped: boolean;
  isDryRun: boolean;
}

/**
 * Brings the objects of a project to what is declared. All of it is planned first; nothing is written while a step needs to be
 * forced. It is one transaction where it fits, else one after the other, in order: to apply again goes on. @throws ApiError
 */
export async function applyObjects(ctx: RequestContext, asked: Applying): Promise<Plan> {
  const whole = new Pass(ctx, asked);
  const unit = ctx.repo.begin();
  await whole.run(async () => unit);
  const plan = whole.plan();
  if (asked.isDryRun) return plan;
  requireForced(whole.toForce(), asked.force);
  if (operationsOf(unit) <= mostOperations) return done(await ctx.commit(unit, () => plan));
  const parts = new Pass(ctx, asked);
  let part = ctx.repo.begin();
  let isPartDone = false;
  await parts.run(async () => {
    if (operationsOf(part) > mostOperationsOfParts) {
      const full = part;
      requireForced(parts.toForce(), asked.force, isPartDone);
      isPartDone = true;
      part = ctx.repo.begin();
      await ctx.commit(full, () => undefined);
    }
    return part;
  });
  // it was planned before the first part, and others may have changed something since
  requireForced(parts.toForce(), asked.force, isPartDone);
  return done(await ctx.commit(part, () => parts.plan()));
}

function done(plan: unknown): Plan {
  return plan as Plan; // what is committed is answered with
}

/** Guards and writes of one transaction; an object that is added needs some more. */
const mostOperations = 60;
const mostOperationsOfParts = 30;

/** How many guards and writes a unit needs, at most. Objects that stay as they are and places are guarded as well. */
function operationsOf(unit: Unit): number {
  /** Of the caller, the tenant and budgets. */
  const others = 6;
  const { objects, guarded } = unit.changes();
  const markers = new Set(objects.flatMap(({ it }) => markersOf(it)));
  // a volume that is mounted is guarded twice: itself, and what else enters it
  return objects.reduce((sum, { it, action }) => sum + operationsOn(it, action), others + 2 * guarded + markers.size);
}

function operationsOn({ meta, desired }: ReadonlyResource, action: string): number {
  const names = definitionOf(meta.kind).unique?.(desired as DesiredOf<typeof meta.kind>) ?? []; // only read
  return action === 'create' ? 2 + 2 * names.length : 4;
}

function requireForced(steps: readonly PlannedStep[], force: readonly string[], isPartDone = false): void {
  const missing = steps.filter(({ key }) => !force.includes(key));
  if (missing.length === 0) return;
  const soFar = isPartDone ? 'What came before is done, and the rest is not, as it has' : 'Nothing is done, as it has';
  throw conflicting(
    `${soFar} to be forced: ${missing.map(whyForced).join('; ')}. Look at the plan with dry_run, then name each key in force`,
    missing.map((it) => ({ field: 'force', reason: 'force_needed', message: whyForced(it) })),
  );
}

/** The names of what was declared below a field that has chosen names. */
function namesBelow(former: ReadonlyMap<string, unknown> | undefined, field: string): string[] {
  return [...(former?.keys() ?? [])].flatMap((path) => (path.startsWith(`${field}/`) ? (chosenName(path) ?? []) : []));
}

function whyForced({ key, loses_data, fields }: PlannedStep): string {
  if (loses_data !== null) return `${key} loses data`;
  const others = fields.filter(({ by_hand }) => by_hand);
  const declared = others.flatMap((it) => (it.declared_by === null ? [] : [`${it.declared_by} declares ${it.field}`]));
  const set = others.filter(({ declared_by }) => declared_by === null).map(({ field }) => field);
  const bySomebody = set.length > 0 ? [`somebody else has set ${set.join(', ')}`] : [];
  return `${key}: ${[...declared, ...bySomebody].join(', ')}`;
}

type Live = ReadonlyResource<DeclaredKind>;

/** One pass over all that is declared. */
class Pass {
  readonly #ctx: RequestContext;
  readonly #asked: Applying;
  readonly #coming: ComingView;
  readonly #steps: PlannedStep[] = [];
  readonly #declared = new Set<string>();
  /** Steps that change back what others changed of what the manager alone declares. */
  readonly #corrections = new Set<PlannedStep>();
  /** Of objects that are moved, by their ids: the names that they have now. */
  readonly #formerNames = new Map<string, string>();
  /** What is moved, by the folded key of what it is moved from. */
  readonly #movedFrom = new Map<string, string>();
  /** Ids of what is deleted, as nothing declares it any more. */
  readonly #going = new Set<string>();
  /** What was applied, or is being. */
  readonly #begun = new Set<DeclaredObject>();
  /** By the applications that get a host name which another one of the text gives back. */
  readonly #givers = new Map<
    DeclaredObject,
    { live: ReadonlyResource<'application'>; giver: DeclaredOf<'Application'> }
  >();
  readonly #changedDatabases: Parameters<typeof requireUnpooled>[1][] = [];

  constructor(ctx: RequestContext, asked: Applying) {
    this.#coming = new ComingView(ctx.view);
    this.#ctx = { ...ctx, view: this.#coming.view };
    this.#asked = asked;
  }

  plan(): Plan {
    return {
      dry_run: this.#asked.isDryRun,
      changes: this.#steps.some(({ action }) => action !== 'unchanged'),
      steps: this.#steps,
      needs_force: this.toForce().map(({ key }) => key),
    };
  }

  /** Steps that lose data, or overwrite what others have set. */
  toForce(): PlannedStep[] {
    const overwrites = (it: PlannedStep): boolean =>
      it.fields.some(({ by_hand }) => by_hand) && !this.#corrections.has(it);
    return this.#steps.filter((it) => it.loses_data !== null || overwrites(it));
  }

  /** @throws ApiError */
  async run(unitFor: () => Promise<Unit>): Promise<void> {
    const { objects, prune } = this.#asked;
    this.#findGivers();
    for (const it of objects) if (!this.#begun.has(it)) await this.#applyInTurn(unitFor, it);
    const forgotten = prune ? this.#forgotten() : [];
    for (const it of forgotten) if (this.#othersOf(it).length === 0) this.#going.add(it.meta.id);
    for (const it of forgotten) {
      const unit = await unitFor();
      await this.#prune(unit, it);
      this.#coming.show(unit);
    }
    // what refers to a pooler may be changed by the same set
    for (const one of this.#changedDatabases) requireUnpooled(this.#ctx.view, one);
    this.#requireFound();
  }

  /**
   * Applies an object. What gives back the host name that it gets comes before, in the same unit; before that comes what the
   * giver refers to, which may be more than one transaction has room for.
   */
  async #applyInTurn(unitFor: () => Promise<Unit>, it: DeclaredObject): Promise<void> {
    const { project, objects } = this.#asked;
    this.#begun.add(it);
    const { project: named } = it.spec;
    if (named !== undefined && foldName(named) !== foldName(project.desired.name))
      throw badRequest(`${this.#keyOf(it)} is of project ${named}, and it is applied to ${project.desired.name}`);
    const given = this.#givers.get(it);
    if (given === undefined) return this.#applyIn(await unitFor(), it);
    const { live, giver } = given;
    const { host_name: free, ...desired } = live.desired;
    const before = this.#before(giver);
    // what exchanges names, and what refers to that
    const together = new Set<DeclaredObject>();
    for (const one of objects) {
      if (!before.has(one) || this.#begun.has(one)) continue;
      const isNamed = one === giver || this.#givers.has(one) || hostNameOf(one) === free;
      if (isNamed || [...together].some((other) => isReferredToBy(other, one))) together.add(one);
      else await this.#applyInTurn(unitFor, one);
    }
    const unit = await unitFor();
    // of two that exchange their names each finds the other one's free
    await this.#coming.showing({ ...live, desired }, async () => {
      for (const one of together) if (!this.#begun.has(one)) await this.#applyInTurn(async () => unit, one);
    });
    await this.#applyIn(unit, it);
  }

  async #applyIn(unit: Unit, it: DeclaredObject): Promise<void> {
    await this.#apply(unit, it);
    this.#coming.show(unit);
  }

  /** What gives a host name back with all that it refers to, what gives it one in its turn, and so on. */
  #before(giver: DeclaredObject): ReadonlySet<DeclaredObject> {
    const before = new Set([giver]);
    for (const one of before) {
      const next = this.#givers.get(one)?.giver;
      if (next !== undefined) before.add(next);
      for (const other of this.#asked.objects) if (isReferredToBy(other, one)) before.add(other);
    }
    return before;
  }

  /** Finds the applications that give their host name to another one of the text. */
  #findGivers(): void {
    const { view } = this.#ctx;
    const changing = this.#asked.objects.flatMap((it) => {
      if (it.kind !== 'Application') return [];
      const { name, moved_from: former } = it.metadata;
      const environment = this.#findEnvironment(it.spec);
      const all = environment === undefined ? [] : view.by('application', 'environment', environment.meta.id);
      const live = found(all, name) ?? (former === undefined ? undefined : found(all, former));
      if (live === undefined) return [];
      const { host_name: after = this.#wasDeclared(live, 'host_name') ? slugOf(name) : live.desired.host_name } =
        it.spec;
      return after === live.desired.host_name ? [] : [{ it, live, after }];
    });
    for (const { it, live, after } of changing) {
      const giver = changing.find(
        ({ live: { desired } }) =>
          desired.host_name === after && desired.environment_id === live.desired.environment_id,
      );
      // others may refer to its new name, and come after it
      if (giver !== undefined && it.metadata.moved_from === undefined) this.#givers.set(it, { live, giver: giver.it });
    }
  }

  /** Whether the manager declared a field when it applied the object last. */
  #wasDeclared({ desired }: Live, field: string): boolean {
    return formerOf(desired.declarations, this.#asked)?.fields?.includes(field) === true;
  }

  async #apply(unit: Unit, it: DeclaredObject): Promise<void> {
    switch (it.kind) {
      case 'Environment':
        return this.#environment(unit, it);
      case 'Volume':
        return this.#volume(unit, it);
      case 'Database':
        return this.#database(unit, it);
      case 'Application':
        return this.#application(unit, it);
      case 'Function':
        return this.#function(unit, it);
      case 'TemplateInstance':
        return this.#templateInstance(unit, it);
    }
  }

  #environment(unit: Unit, it: DeclaredOf<'Environment'>): void {
    const { project: _of, ...spec } = it.spec;
    const { project } = this.#asked;
    const live = this.#liveOf(it, this.#ctx.view.by('environment', 'project', project.meta.id));
    const body = { ...spec, ...defined({ labels: it.metadata.labels }), name: it.metadata.name };
    const fields = ['name', ...Object.keys(spec)];
    if (live === undefined) {
      const made = addEnvironment(this.#ctx, unit, project, body);
      return this.#created(unit, it, made, fields);
    }
    const newName = this.#newNameOf(it, live);
    const changed = unit.change(live, (draft) => {
      writeEnvironment(draft, { ...this.#defaults(live, fields), ...body });
      draft.name = newName ?? draft.name;
    });
    this.#label(unit, live, it);
    this.#changed(unit, it, { live, changed, fields });
  }

  #volume(unit: Unit, it: DeclaredOf<'Volume'>): void {
    const environment = this.#environmentOf(it.spec);
    const all = this.#ctx.view.by('volume', 'environment', environment.meta.id).filter(isOwn);
    const live = this.#liveOf(it, all);
    const place = this.#placeOf(environment, it.spec, live);
    if (live === undefined) {
      requireVolumeRoom(this.#ctx.view, place.fields.project_id, { adding: 1 });
      enterPlace(unit, place);
      const desired = { ...place.fields, name: it.metadata.name };
      const made = unit.create('volume', this.#ctx.random.id(), desired, defined({ labels: it.metadata.labels }));
      return this.#created(unit, it, made, ['name']);
    }
    this.#requireServer(it, live, place);
    this.#label(unit, live, it);
    const newName = this.#newNameOf(it, live);
    const kept = keepVolume(unit, live);
    const changed = newName === undefined ? kept : unit.change(live, (draft) => void (draft.name = newName));
    this.#changed(unit, it, { live, changed, fields: ['name'] });
  }

  #database(unit: Unit, it: DeclaredOf<'Database'>): void {
    const ctx = this.#ctx;
    const environment = this.#environmentOf(it.spec);
    const { project: _p, environment: _e, server: _s, ...spec } = it.spec;
    const live = this.#liveOf(it, ctx.view.by('database', 'environment', environment.meta.id));
    const place = this.#placeOf(environment, it.spec, live);
    const body = { ...place.fields, ...spec, name: it.metadata.name, ...defined({ labels: it.metadata.labels }) };
    const fields = ['name', ...Object.keys(spec)];
    if (live === undefined) return this.#created(unit, it, addDatabase(ctx, unit, place, body), fields);
    this.#requireServer(it, live, place);
    this.#requireOwn(it, live);
    const { desired } = live;
    // what is not declared is what it is
    const { type, version, database_name, database_user } = desired;
    const same = { ...(body.type === type && { version, database_name, database_user }) };
    const whole = { ...same, ...body };
    const wanted = newDatabase(ctx, place.fields, whole, desired.data_volume_id, live.meta.id).desired;
    if (isOtherDatabase(desired, wanted)) return this.#replaced(unit, it, live);
    if (typeof spec.password === 'string' && !ctx.view.isSame(desired.password, wanted.password))
      throw conflicting(
        `${this.#keyOf(it)} declares another password than it has: change it by POST /databases/${live.meta.id}/rotate-password, or leave it out`,
      );
    const { display_name, memory_limit, cpu_limit, exposed_port, parameters, connection_pooling, require_tls } = spec;
    const limits = { display_name, memory_limit, cpu_limit, exposed_port, parameters };
    const sent = defined({ ...limits, connection_pooling, require_tls });
    const former = formerOf(desired.declarations, this.#asked);
    const update = { ...this.#defaults(live, fields), ...sent, ...this.#parameters(former?.leaves, parameters) };
    const written = unit.change(live, (draft) => writeDatabase(draft, update, ctx));
    judgeDatabase(ctx, unit, { it: live, changed: written, body: update });
    const newName = this.#newNameOf(it, live);
    const changed = newName === undefined ? written : unit.change(live, (draft) => void (draft.name = newName));
    this.#changedDatabases.push({ it: live, changed });
    this.#label(unit, live, it);
    this.#changed(unit, it, { live, changed, fields });
  }

  /** Settings of an engine that are not declared any more go back to their usual value; those of others stay. */
  #parameters(
    former: ReadonlyMap<string, unknown> | undefined,
    declared: Readonly<Record<string, string | null>> | null | undefined,
  ): { parameters?: Record<string, string | null> } {
    const before = namesBelow(former, 'parameters');
    if (before.length === 0 && (declared === undefined || declared === null)) return {};
    return { parameters: { ...Object.fromEntries(before.map((name) => [name, null])), ...declared } };
  }

  async #application(unit: Unit, it: DeclaredOf<'Application'>): Promise<void> {
    const ctx = this.#ctx;
    const environment = this.#environmentOf(it.spec);
    const live = this.#liveOf(it, ctx.view.by('application', 'environment', environment.meta.id));
    const place = this.#placeOf(environment, it.spec, live);
    const { project: _p, environment: _e, server: _s, registry, git_credential, volumes, ...spec } = it.spec;
    const source_type =
      spec.source_type ??
      (typeof spec.compose_file === 'string' || typeof spec.compose_path === 'string'
        ? 'compose'
        : typeof spec.repository_url === 'string'
          ? 'git'
          : 'image');
    const ids = defined({
      registry_id: registry === undefined ? undefined : this.#idOf('registry', registry),
      git_credential_id: git_credential === undefined ? undefined : this.#idOf('git_credential', git_credential),
    });
    const labels = defined({ labels: it.metadata.labels });
    const fields = [...new Set(['name', 'source_type', ...Object.keys(spec), ...Object.keys(ids)])];
    if (volumes !== undefined) fields.push('volumes');
    if (live === undefined) {
      const body = { ...place.fields, ...spec, ...ids, ...labels, source_type, name: it.metadata.name };
      const made = await addApplication(ctx, unit, place, body);
      await this.#mount(unit, made, volumes ?? []);
      const mounted = unit.change(made, () => undefined);
      this.#coming.show(unit);
      if (this.#asked.deploys) await startDeployment(ctx, unit, mounted);
      return this.#created(unit, it, mounted, fields);
    }
    this.#requireServer(it, live, place);
    const former = formerOf(live.desired.declarations, this.#asked);
    const env = this.#env(live, former?.leaves, spec.env);
    const named = defined({ name: this.#newNameOf(it, live) });
    const holder = this.#goingHolder(it, live, fields);
    const defaults = this.#applicationDefaults(it, live, fields);
    if (holder !== undefined) {
      // what is noted as declared returns to its default once that is free
      delete defaults['host_name'];
      fields.push('host_name');
    }
    const update = { ...defaults, ...spec, ...ids, ...labels, ...named, source_type, ...env };
    if (isMounting(volumes, former)) await this.#mount(unit, live, volumes ?? []);
    const mounted = unit.change(live, () => undefined);
    const { changed } = await changeApplication(ctx, unit, mounted, update, { deploys: this.#deploys(live) });
    const waitsFor =
      holder && `Application ${holder.desired.name} to be gone, which has its host name: apply again then`;
    this.#changed(unit, it, { live, changed, fields, waitsFor });
  }

  async #function(unit: Unit, it: DeclaredOf<'Function'>): Promise<void> {
    const ctx = this.#ctx;
    const environment = this.#environmentOf(it.spec);
    const live = this.#liveOf(it, ctx.view.by('function', 'environment', environment.meta.id));
    const place = this.#placeOf(environment, it.spec, live);
    const { project: _p, environment: _e, server: _s, volumes, ...spec } = it.spec;
    const { schedule, schedule_config, ...others } = spec;
    const isTriggered = [schedule, schedule_config, spec.trigger_type].some((one) => one !== undefined);
    const fields = [...new Set(['name', ...Object.keys(others), ...(isTriggered ? ['trigger_type'] : [])])];
    if (volumes !== undefined) fields.push('volumes');
    if (live === undefined) {
      const body = { ...spec, ...defined({ labels: it.metadata.labels }), name: it.metadata.name };
      const made = addFunction(ctx, unit, place, body);
      await this.#mount(unit, made, volumes ?? []);
      const mounted = unit.change(made, () => undefined);
      return this.#created(unit, it, this.#asked.deploys ? addVersion(ctx, unit, mounted) : mounted, fields);
    }
    this.#requireServer(it, live, place);
    this.#requireOwn(it, live);
    const former = formerOf(live.desired.declarations, this.#asked);
    const isUntriggered = !isTriggered && former?.fields?.includes('trigger_type') === true;
    const update = {
      ...this.#defaults(live, fields),
      ...spec,
      // a trigger is declared as a whole
      ...(isTriggered && schedule_config === undefined && { schedule_config: null }),
      ...(isUntriggered && { trigger_type: 'http' as const }),
      ...this.#env(live, former?.leaves, spec.env),
    };
    const newName = this.#newNameOf(it, live);
    if (isMounting(volumes, former)) await this.#mount(unit, live, volumes ?? []);
    const changed = unit.change(live, (draft) => {
      applyFunctionFields(ctx, draft, update, live.meta.id);
      draft.name = newName ?? draft.name;
    });
    const { project_id: projectId, server_id: serverId, exposed_port: port } = changed.desired;
    if (port !== live.desired.exposed_port) requirePort(ctx, { id: live.meta.id, projectId, serverId, port });
    if (this.#deploys(live) && !isVersionOf(ctx.view, changed)) addVersion(ctx, unit, changed);
    this.#label(unit, live, it);
    this.#changed(unit, it, { live, changed, fields });
  }

  /** Whether what is there gets a deployment, or a version, of what is declared now. One that never ran is as it was made. */
  #deploys(live: ReadonlyResource<'application'> | ReadonlyResource<'function'>): boolean {
    const { deploys, startsStopped } = this.#asked;
    const hasRun = 'trigger' in live.desired ? live.desired.version_id : live.desired.deployment_id;
    return deploys && (startsStopped || live.desired.run === 'running' || hasRun === undefined);
  }

  async #templateInstance(unit: Unit, it: DeclaredOf<'TemplateInstance'>): Promise<void> {
    const ctx = this.#ctx;
    const { view } = ctx;
    const environment = this.#environmentOf(it.spec);
    const { template: named, variables = {}, drift } = it.spec;
    const { name } = it.metadata;
    const template = found(view.list('template'), named);
    if (template === undefined) throw badRequest(`${this.#keyOf(it)} is of template ${named}, which is not there`);
    const known = this.#liveOf(it, view.by('template_instance', 'environment', environment.meta.id));
    // its parts have its name: it cannot be renamed
    const former = known !== undefined && this.#formerNames.has(known.meta.id) ? known : undefined;
    const live = former === undefined ? known : undefined;
    const place = this.#placeOf(environment, it.spec, known);
    if (live === undefined) {
      requireInstanceRoom(view, place.fields.project_id);
      const { id, desired } = await newInstance(ctx, { template, place, name, variables });
      enterPlace(unit, place);
      unit.require(template);
      const { labels } = it.metadata;
      const made = unit.create('template_instance', id, { ...desired, ...defined({ drift }) }, defined({ labels }));
      if (former !== undefined) {
        this.#declare(it, former);
        unit.requestDelete(former);
      }
      return this.#created(unit, it, made, [], former);
    }
    if (isDeleting(live)) throw conflicting(`${this.#keyOf(it)} is being deleted: apply again once it is gone`);
    this.#requireServer(it, live, place);
    this.#declare(it, live);
    const planned = await planChange(ctx, live, place, {
      ...this.#textOf(it, live, template),
      variables: live.desired.variables,
      given: variables,
    });
    const changed: Live = unit.change(live, (draft) => {
      planned.write(draft);
      if (drift !== undefined && drift !== (draft.drift ?? 'warn')) draft.drift = drift;
      if (planned.changes) draft.requested_by = ctx.principal.user.meta.id;
    });
    unit.require(template);
    if (planned.changes) {
      enterPlace(unit, place);
      for (const one of planned.adopted) unit.require(one);
    }
    this.#label(unit, live, it);
    const isSame = unit.changes().objects.every(({ it: other }) => other.meta.id !== live.meta.id);
    this.#note(unit, live, changed, { fields: [], spec: it.spec });
    const parts = planned.steps.filter(({ action }) => action !== 'unchanged');
    const words = (of: 'interrupts' | 'loses_data'): string | null =>
      parts.flatMap((part) => (part[of] === null ? [] : [`${part.key}: ${part[of]}`])).join('; ') || null;
    this.#steps.push({
      ...this.#stepOf(it, isSame ? 'unchanged' : 'update'),
      id: live.meta.id,
      fields: parts.flatMap(fieldsOfPart),
      interrupts: words('interrupts'),
      loses_data: words('loses_data'),
    });
  }

  /**
   * The text that an instance follows. Any user may change a template of theirs, and take a name that is free: what they
   * write then runs with the rights of who declares the instance only once that is forced, by a key of its own: what a plan
   * has shown of the present text is no consent to another one.
   */
  #textOf(
    it: DeclaredOf<'TemplateInstance'>,
    { desired }: ReadonlyResource<'template_instance'>,
    template: ReadonlyResource<'template'>,
  ): { template_id: string; template_name: string; content: string } {
    const { principal, view } = this.#ctx;
    const { template_id, template_name, content } = desired;
    const isNamedAnew = foldName(it.spec.template) !== foldName(template_name);
    const isTaken =
      isNamedAnew ||
      hasTrustedAuthor(principal, template, view) ||
      this.#asked.force.includes(textKeyOf(this.#keyOf(it)));
    // an instance of an earlier release has no text of its own
    return isTaken || content === undefined
      ? { template_id: template.meta.id, template_name: template.desired.name, content: template.desired.content }
      : { template_id, template_name, content };
  }

  /** The variables with those that others have set, which an update replaces as a whole. */
  #env(
    live: ReadonlyResource<'application'> | ReadonlyResource<'function'>,
    former: ReadonlyMap<string, unknown> | undefined,
    declared: Readonly<Record<string, string>> | null | undefined,
  ): { env?: Record<string, string> } {
    const before = namesBelow(former, 'config/env');
    if (before.length === 0 && (declared === undefined || declared === null)) return {};
    const kind = 'trigger' in live.desired ? 'function' : 'application';
    const env = unsealEnv(this.#ctx, live.meta.id, live.desired.config.env, kind);
    for (const name of before) delete env[name];
    return { env: { ...env, ...declared } };
  }

  /** Mounts what is declared, and nothing else. */
  async #mount(
    unit: Unit,
    it: MountingWorkload,
    wanted: NonNullable<DeclaredOf<'Application' | 'Function'>['spec']['volumes']>,
  ): Promise<void> {
    const { view } = this.#ctx;
    const all = view.by('volume', 'environment', it.desired.environment_id);
    const mounts = wanted.map(({ volume: name, path, read_only = false }) => {
      const volume = found(all.filter(isOwn), name);
      if (volume === undefined)
        throw badRequest(
          `${isKind(it, 'function') ? 'Function' : 'Application'} ${it.desired.name} mounts ${name}, which is no volume of its environment`,
        );
      return { volume, path, read_only };
    });
    const isKept = (mount: { volume_id: string; path: string; read_only: boolean }): boolean =>
      mounts.some(
        ({ volume, path, read_only }) =>
          volume.meta.id === mount.volume_id && path === mount.path && read_only === mount.read_only,
      );
    let next: MountingWorkload = changeMounts(unit, it, (before) => before.filter(isKept));
    this.#coming.show(unit);
    for (const { volume, path, read_only } of mounts) {
      keepVolume(unit, volume);
      if (next.desired.mounts.some(({ volume_id }) => volume_id === volume.meta.id)) continue;
      await requireMountable(this.#ctx, unit, volume, next, { path, readOnly: read_only });
      const { data_id } = volume.desired;
      const mount = { volume_id: volume.meta.id, ...defined({ data_id }), path, read_only };
      next = changeMounts(unit, next, (before) => [...before, mount]);
    }
  }

  /** Fields that the manager declared before and does not declare any more, each to return to its default. */
  #defaults({ desired }: Live, fields: readonly string[]): Record<string, null> {
    const former = formerOf(desired.declarations, this.#asked)?.fields ?? [];
    const merged = [
      'env',
      'parameters',
      'volumes',
      'name',
      'trigger_type',
      'source_type',
      'type',
      'version',
      'database_name',
      'database_user',
    ];
    return Object.fromEntries(
      former.filter((field) => !fields.includes(field) && !merged.includes(field)).map((field) => [field, null]),
    );
  }

  /** As `#defaults`; the default of `host_name` is not none, but one by its name. */
  #applicationDefaults(
    { metadata: { name } }: DeclaredOf<'Application'>,
    live: ReadonlyResource<'application'>,
    fields: readonly string[],
  ): Record<string, string | null> {
    const defaults = this.#defaults(live, fields);
    if (!('host_name' in defaults)) return defaults;
    const { environment_id: environment } = live.desired;
    return { ...defaults, host_name: newHostName(this.#ctx.view, environment, name, { self: live.meta.id }) };
  }

  /** What has the host name by which the application would go by default, and goes: it is no reason for another one. */
  #goingHolder(
    { metadata: { name } }: DeclaredOf<'Application'>,
    live: ReadonlyResource<'application'>,
    fields: readonly string[],
  ): ReadonlyResource<'application'> | undefined {
    if (fields.includes('host_name') || !this.#wasDeclared(live, 'host_name')) return undefined;
    const holder = this.#ctx.view
      .by('application', 'environment', live.desired.environment_id)
      .find(({ meta, desired }) => meta.id !== live.meta.id && desired.host_name === slugOf(name));
    if (holder === undefined) return undefined;
    const isDeclared = this.#asked.objects.some(
      ({ kind, metadata }) =>
        kind === 'Application' &&
        [metadata.name, metadata.moved_from].some(
          (one) => one !== undefined && foldName(one) === foldName(holder.desired.name),
        ),
    );
    const isForgotten =
      this.#asked.prune && this.#isOfSet(holder) && !isDeclared && this.#othersOf(holder).length === 0;
    return isDeleting(holder) || isForgotten ? holder : undefined;
  }

  #label(unit: Unit, live: Live, { metadata: { labels } }: DeclaredObject): void {
    if (labels !== undefined) unit.label(live, labels);
  }

  /** `former`: what it takes the place of, as that cannot be renamed. */
  #created(unit: Unit, it: DeclaredObject, made: Live, fields: readonly string[], former?: Live): void {
    this.#declare(it, made);
    this.#note(unit, made, made, { fields, spec: it.spec });
    const step = { ...this.#stepOf(it, 'create'), id: this.#asked.isDryRun ? null : made.meta.id };
    const replaces = former && {
      action: 'replace' as const,
      renamed_from: former.desired.name,
      ...effectsOfReplacement(former.meta.kind),
    };
    this.#steps.push({ ...step, ...replaces });
  }

  #changed(
    unit: Unit,
    it: DeclaredObject,
    {
      live,
      changed,
      fields,
      waitsFor = null,
    }: { live: Live; changed: Live; fields: readonly string[]; waitsFor?: string | null | undefined },
  ): void {
    const { kind } = live.meta;
    this.#declare(it, live);
    if (isDeleting(live)) throw conflicting(`${this.#keyOf(it)} is being deleted: apply again once it is gone`);
    this.#requireOwn(it, live);
    const { declarations } = live.desired;
    const former = formerOf(declarations, this.#asked);
    const wanted = declarationOf(changed.desired, fields);
    const writes = fieldPlan(kind, { former, wanted, live: live.desired }, this.#ctx.view.isSame).filter(
      ({ isWrite, path }) => isWrite && path !== referencesPath,
    );
    // what nobody has applied was set by somebody
    const isOfOther = ({ path }: FieldPlan): boolean => otherManager(declarations, this.#asked, path) !== undefined;
    const isOthers = (one: FieldPlan): boolean =>
      one.isForeign || isOfOther(one) || (former === undefined && (one.before !== null || one.isSecret));
    const isSame = unit.changes().objects.every(({ it: other }) => other.meta.id !== live.meta.id);
    this.#note(unit, live, changed, { fields, spec: it.spec });
    const effects = effectsOfChange(
      kind,
      writes.map(({ path }) => path),
      changed.desired,
    );
    const step: PlannedStep = {
      ...this.#stepOf(it, isSame && waitsFor === null ? 'unchanged' : 'update'),
      id: live.meta.id,
      waits_for: waitsFor,
      renamed_from: this.#formerNames.get(live.meta.id) ?? null,
      fields: writes.map((one) => ({
        field: one.field,
        before: one.before,
        after: one.after,
        secret: one.isSecret,
        by_hand: isOthers(one),
        declared_by: otherManager(declarations, this.#asked, one.path) ?? null,
      })),
      ...effects,
    };
    this.#steps.push(step);
    if (this.#asked.corrects === true && former !== undefined && !writes.some(isOfOther)) this.#corrections.add(step);
  }

  /** @throws ApiError CONFLICT for a part of a template instance */
  #requireOwn(it: DeclaredObject, { desired }: Live): void {
    if ('template_instance_id' in desired && desired.template_instance_id !== undefined)
      throw conflicting(`${this.#keyOf(it)} belongs to a template instance: change that one, or its template`);
  }

  /** The name stays taken until the present one is gone. */
  #replaced(unit: Unit, it: DeclaredObject, live: ReadonlyResource<'database'>): void {
    requireUnreferred(this.#ctx.view, live);
    this.#declare(it, live);
    unit.requestDelete(live);
    this.#steps.push({
      ...this.#stepOf(it, 'replace'),
      id: live.meta.id,
      ...effectsOfReplacement('database'),
      // what goes already was allowed to
      ...(isDeleting(live) && { loses_data: null }),
      waits_for: 'The present one to be gone: apply again then',
    });
  }

  /**
   * The object that is declared, or the one that it is moved from. @throws ApiError CONFLICT if there are both; BAD_REQUEST if
   * something else that is declared has the name before, or had it
   */
  #liveOf<T extends Live>(it: DeclaredObject, all: readonly T[]): T | undefined {
    const { name, moved_from: before } = it.metadata;
    const live = found(all, name);
    const at = (of: string): string => foldName(this.#keyOf({ ...it, metadata: { name: of } }));
    const mover = this.#movedFrom.get(at(name));
    const twice = (key: string, from: string): ApiError =>
      badRequest(`${key} is moved from ${from}, which is declared as well: declare one of them`);
    if (mover !== undefined) throw twice(mover, this.#keyOf(it));
    if (before === undefined) return live;
    const former = found(all, before);
    if (former === undefined || isDeleting(former)) return live;
    if (this.#declared.has(former.meta.id))
      throw twice(this.#keyOf(it), this.#keyOf({ ...it, metadata: { name: before } }));
    if (live !== undefined)
      throw conflicting(
        isDeleting(live)
          ? `${this.#keyOf(it)} is being deleted: apply again once it is gone`
          : `${this.#keyOf(it)} cannot be moved from ${before}, as there are both: delete or rename one of them, or take moved_from away`,
      );
    this.#movedFrom.set(at(before), this.#keyOf(it));
    this.#formerNames.set(former.meta.id, former.desired.name);
    return former;
  }

  /** The name that the object gets; `undefined`: it keeps its own. @throws ApiError CONFLICT for a part of a template instance */
  #newNameOf(it: DeclaredObject, live: Live): string | undefined {
    if (!this.#formerNames.has(live.meta.id)) return undefined;
    this.#requireOwn(it, live);
    return it.metadata.name;
  }

  /** @throws ApiError CONFLICT for variables that name something by the name that it does not have any more */
  #requireFound(): void {
    const { view } = this.#ctx;
    for (const kind of ['application', 'database'] as const)
      for (const [id, name] of this.#formerNames) {
        const desired = view.get(kind, id)?.desired;
        if (desired === undefined) continue;
        const users = referringByName(view, { kind, name, environmentId: desired.environment_id });
        if (users.length > 0)
          throw conflicting(
            `Variables of ${users.join(', ')} refer to ${kind}s.${name}, which becomes ${desired.name}: let them refer to that in the same text`,
          );
      }
  }

  /** What the object is called: those of the usual environment go without its name. */
  #keyOf(it: Parameters<typeof keyOf>[0]): string {
    return keyOf(it, this.#usual());
  }

  /** The environment of objects that name none. */
  #usualId(): string {
    const { environment, project } = this.#asked;
    return environment?.meta.id ?? project.desired.default_environment_id;
  }

  /** Its name. */
  #usual(): string | undefined {
    return this.#ctx.view.get('environment', this.#usualId())?.desired.name;
  }

  #stepOf(it: DeclaredObject, action: PlannedStep['action']): PlannedStep {
    const wave = declaredWords.indexOf(it.kind);
    return {
      ...blank,
      action,
      kind: kindOfWord[it.kind],
      key: this.#keyOf(it),
      name: it.metadata.name,
      id: null,
      wave,
    };
  }

  /** @throws ApiError BAD_REQUEST if two declarations are of the same object */
  #declare(it: DeclaredObject, { meta }: Live): void {
    if (this.#declared.has(meta.id)) throw badRequest(`${this.#keyOf(it)} is declared twice`);
    this.#declared.add(meta.id);
  }

  /** Keeps with the object what was applied of it. */
  #note(unit: Unit, live: Live, { desired }: Live, of: Pick<Applied, 'fields' | 'spec'>): void {
    const { kind } = live.meta;
    const next = declarationsAfter(
      kind,
      live.desired.declarations,
      this.#asked,
      { desired, ...of },
      this.#ctx.view.isSame,
    );
    unit.change(live, (draft) => {
      draft.declarations = next;
    });
  }

  /** The environment that an object is declared for, by default the usual one. */
  #environmentOf(spec: { environment?: string | undefined }): ReadonlyResource<'environment'> {
    const it = this.#findEnvironment(spec);
    if (it === undefined)
      throw badRequest(
        `Project ${this.#asked.project.desired.name} has no environment ${spec.environment ?? 'by default'}: declare it, or name another one`,
      );
    return it;
  }

  #findEnvironment({
    environment: name,
  }: {
    environment?: string | undefined;
  }): ReadonlyResource<'environment'> | undefined {
    const all = this.#ctx.view.by('environment', 'project', this.#asked.project.meta.id);
    return name === undefined ? all.find(({ meta }) => meta.id === this.#usualId()) : found(all, name);
  }

  /** Where an object is, or where it is to be made: by default on the default server of the project. */
  #placeOf(
    environment: ReadonlyResource<'environment'>,
    { server }: { server?: string | undefined },
    live: { readonly desired: { readonly server_id: string } } | undefined,
  ): Place {
    const { view } = this.#ctx;
    const { project } = this.#asked;
    const { id } = project.meta;
    const usable = view.list('server').filter((it) => grants(it, id));
    const named =
      server === undefined ? undefined : (found(usable, server) ?? usable.find((it) => it.meta.id === server));
    if (server !== undefined && named === undefined)
      throw badRequest(`Project ${project.desired.name} may use no server ${server}: name another one`);
    return placeFrom(view, {
      project_id: id,
      environment_id: environment.meta.id,
      server_id: named?.meta.id ?? live?.desired.server_id,
    });
  }

  #idOf(kind: 'registry' | 'git_credential', name: string): string {
    const all: readonly ReadonlyResource<'registry' | 'git_credential'>[] = this.#ctx.view.list(kind);
    const it = found(
      all.filter((one) => grants(one, this.#asked.project.meta.id)),
      name,
    );
    if (it === undefined) throw badRequest(`The project may use no ${kind.replace('_', ' ')} ${name}`);
    return it.meta.id;
  }

  #requireServer(
    it: DeclaredObject,
    live: ReadonlyResource<'volume' | 'database' | 'application' | 'function' | 'template_instance'>,
    place: Place,
  ): void {
    if (!('server' in it.spec) || it.spec.server === undefined) return;
    if (live.desired.server_id !== place.fields.server_id)
      throw conflicting(
        `${this.#keyOf(it)} is on another server than ${it.spec.server}: it cannot be moved. Name its present server, or delete it first`,
      );
  }

  /** What the set applied before and does not declare any more, what uses something before that. */
  #forgotten(): Live[] {
    const { project } = this.#asked;
    const all = (
      ['function', 'application', 'template_instance', 'database', 'volume', 'environment'] as const
    ).flatMap((kind): readonly Live[] => this.#ctx.view.by(kind, 'project', project.meta.id));
    return all.filter((it) => isStaying(it) && this.#isOfSet(it) && !this.#declared.has(it.meta.id));
  }

  #isOfSet({ desired }: Live): boolean {
    const { manager, set } = this.#asked;
    return desired.declarations?.some((it) => it.manager === manager && it.set === set) === true;
  }

  /** What other managers declare of an object. */
  #othersOf({ desired }: Live): NonNullable<Live['desired']['declarations']> {
    return (desired.declarations ?? []).filter(({ manager }) => manager !== this.#asked.manager);
  }

  /** Whether something is being deleted, is deleted by this pass, or goes with what is. */
  #goes(it: ReadonlyResource): boolean {
    if (isDeleting(it) || this.#going.has(it.meta.id)) return true;
    const { template_instance_id: instance, database_id: database } = {
      template_instance_id: undefined,
      database_id: undefined,
      ...it.desired,
    };
    const owners = [
      instance === undefined ? undefined : this.#ctx.view.get('template_instance', instance),
      database === undefined ? undefined : this.#ctx.view.get('database', database),
    ];
    return owners.some((one) => one !== undefined && this.#goes(one));
  }

  async #prune(unit: Unit, it: Live): Promise<void> {
    const { kind, id } = it.meta;
    const environment =
      'environment_id' in it.desired
        ? this.#ctx.view.get('environment', it.desired.environment_id)?.desired.name
        : undefined;
    const key = keyFor(kind, { environment, name: it.desired.name }, this.#usual());
    const step: PlannedStep = { ...blank, action: 'delete', kind, key, name: it.desired.name, id };
    if (this.#othersOf(it).length > 0) {
      // another manager declares it: it stays
      unit.change(it, (draft) => {
        draft.declarations = draft.declarations?.filter(({ manager }) => manager !== this.#asked.manager);
      });
      this.#steps.push({ ...step, action: 'update' });
      return;
    }
    const waitsFor = await this.#wait(unit, it);
    if (waitsFor === null) unit.requestDelete(it);
    this.#steps.push({ ...step, ...effectsOfDeletion(kind), waits_for: waitsFor });
  }

  /** Whether the instance of that id is `it`, or would wait for it, also by way of others. `seen`: ids that were asked. */
  #waitsFor(id: string | undefined, it: ReadonlyResource<'template_instance'>, seen = new Set<string>()): boolean {
    if (id === it.meta.id) return true;
    const instance = id === undefined || seen.has(id) ? undefined : this.#ctx.view.get('template_instance', id);
    if (!isStaying(instance)) return false;
    seen.add(instance.meta.id);
    return usedOutside(this.#ctx.view, instance).some(({ users }) =>
      users.some(({ desired }) => this.#waitsFor(desired.template_instance_id, it, seen)),
    );
  }

  /**
   * What has to be gone before an object is deleted; `null`: nothing. What goes by the same pass is no reason to refuse, and
   * is waited for where data would be taken from it. @throws ApiError CONFLICT for what stays
   */
  async #wait(unit: Unit, it: Live): Promise<string | null> {
    const { view } = this.#ctx;
    const stays = (one: ReadonlyResource): boolean => !this.#goes(one);
    if (isOfKind(it, 'application') || isOfKind(it, 'database')) {
      const users = referringWorkloads(view, it);
      const lack = referralsInWords(it, users.filter(stays));
      if (lack !== undefined)
        throw conflicting(`${lack} ${it.desired.name}, which is to be deleted: change them first`);
      return isOfKind(it, 'database') && users.length > 0 ? whatUsesIt : null;
    }
    if (isOfKind(it, 'template_instance')) {
      const used = usedOutside(view, it);
      // of two that wait for each other neither would ever go
      const keeps = (one: (typeof used)[number]['users'][number]): boolean =>
        stays(one) || this.#waitsFor(one.desired.template_instance_id, it);
      const staying = used.map((one) => ({ ...one, users: one.users.filter(keeps) }));
      requireUnusedOutside(
        view,
        it,
        staying.filter(({ users }) => users.length > 0),
      );
      return used.length > 0 ? whatUsesIt : null;
    }
    if (it.meta.kind === 'function') return null;
    // what comes into it meanwhile makes the commit fail
    await holdPopulation(this.#ctx, unit, it);
    if (isOfKind(it, 'volume')) {
      requireUnread(view, it);
      const users = objectsIn(view, 'volume', it.meta.id);
      if (users.some(stays))
        throw conflicting(`Volume ${it.desired.name} is to be deleted and is mounted: unbind it first`);
      return users.length > 0 ? 'What mounts it to be gone: apply again then' : null;
    }
    const content = objectsIn(view, 'environment', it.meta.id);
    if (content.some(stays))
      throw conflicting(`Environment ${it.desired.name} is to be deleted and is not empty: delete what is in it first`);
    if (content.length > 0) return 'What is in it to be gone: apply again then';
    const left = view.by('environment', 'project', this.#asked.project.meta.id).filter(isStaying);
    if (left.length === 1)
      throw conflicting('Cannot delete the last environment of a project: delete the project instead');
    unit.require(this.#asked.project);
    return null;
  }
}

/** Whether the version that is to serve is of what the function is now. */
function isVersionOf(view: TenantView, { desired }: ReadonlyResource<'function'>): boolean {
  const version = desired.version_id === undefined ? undefined : view.get('function_version', desired.version_id);
  if (version === undefined) return false;
  const sourceOf = ({ runtime, code, dependencies, config }: Pick<typeof desired, keyof FunctionSource>) =>
    defined({ runtime, code, dependencies, config });
  return sealedEqual(sourceOf(version.desired), sourceOf(desired), view.isSame);
}

type FunctionSource = Pick<DesiredOf<'function_version'>, 'runtime' | 'code' | 'dependencies' | 'config'>;

/** The host name that an application has by its declaration. */
function hostNameOf(it: DeclaredObject): string | undefined {
  return it.kind === 'Application' ? (it.spec.host_name ?? slugOf(it.metadata.name)) : undefined;
}

function isReferredToBy(it: DeclaredObject, by: DeclaredObject): boolean {
  return by.kind === 'Application' && isReferredTo(it, by);
}

const whatUsesIt = 'What uses it to be gone: apply again then';

function isOfKind<K extends DeclaredKind>(it: Live, kind: K): it is ReadonlyResource<K> & Live {
  return it.meta.kind === kind;
}

const blank = { wave: 0, renamed_from: null, fields: [], interrupts: null, loses_data: null, waits_for: null };

/** Whether what is mounted is declared, or was by the same manager. */
function isMounting(
  volumes: object | undefined,
  former: { fields?: readonly string[] | undefined } | undefined,
): boolean {
  return volumes !== undefined || former?.fields?.includes('volumes') === true;
}

/** The volume of a database has no name of its own. */
function isOwn({ desired }: ReadonlyResource<'volume'>): boolean {
  return desired.database_id === undefined;
}

/** What becomes of a part of a template instance, as fields of that. Changes by hand of it are told by its drift. */
function fieldsOfPart({ key, action, fields }: PlannedStep): PlannedStep['fields'] {
  if (fields.length === 0)
    return [{ field: key, before: null, after: action, secret: false, by_hand: false, declared_by: null }];
  return fields.map((one) => ({ ...one, field: `${key}.${one.field}`, by_hand: false, declared_by: null }));
}

/** The one that has the name. */
function found<T extends { readonly desired: { readonly name: string } }>(
  all: readonly T[],
  name: string,
): T | undefined {
  return all.find((it) => foldName(it.desired.name) === foldName(name));
}
