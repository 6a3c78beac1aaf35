import type { z } from 'zod';
import { engines } from '../../databases/engines.ts';
import { isOtherDatabase } from '../../store/declared/effects.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import { defined } from '../../store/defined.ts';
import { parseWritten } from '../../store/faults.ts';
import { foldName } from '../../store/fold-name.ts';
import { childrenToCome } from '../../store/instance-progress.ts';
import { domainName } from '../../store/kinds/domain.ts';
import type { Domain } from '../../store/kinds/domain.ts';
import { poolerService, sideHost, slugOf } from '../../store/kinds/internal-id.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { maxChildrenBytes } from '../../store/kinds/template-instance.ts';
import type { InstanceChild, InstanceChildKind } from '../../store/kinds/template-instance.ts';
import { plainCopy } from '../../store/plain-copy.ts';
import { pooledAttributes } from '../../store/referable.ts';
import { parseReferences, hasReferences, referenceText } from '../../store/references.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { SealPlace } from '../../store/seal.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { ApiError, badField, badRequest, conflicting } from '../ground/api-error.ts';
import type { ErrorDetail } from '../ground/api-error.ts';
import { sealEnv, sealFunctionEnv } from '../workloads/application-env.ts';
import { domainsFrom } from '../workloads/domains.ts';
import { newApplication, requireApplicationRoom, requireVolumeRoom } from '../workloads/new-application.ts';
import { newDatabase, requireDatabaseRoom } from '../workloads/new-database.ts';
import { newFunction, requireFunctionRoom } from '../workloads/new-function.ts';
import type { Place } from '../workloads/place.ts';
import { requirePort } from '../workloads/ports.ts';
import { requireEnvRoom, requireServerRoom } from '../workloads/server-room.ts';
import type { Declared } from './declared.ts';
import { sections, TemplateApplication, TemplateDatabase, TemplateFunction, TemplateVolume } from './document.ts';
import type { Mention } from './expression.ts';
import { maxRenderedChars } from './limits.ts';
import { readTemplate } from './read.ts';
import { render } from './render.ts';
import type { Rendering } from './render.ts';
import { valuesFrom } from './values.ts';
import type { FormerValue, Value } from './values.ts';

type Desired = DesiredOf<'template_instance'>;

export interface Asked {
  template: ReadonlyResource<'template'>;
  place: Place;
  name: string | undefined;
  variables: Readonly<Record<string, string>>;
}

/**
 * The id and the desired state of a new instance, with all that it is to make: each child is judged as if it were created
 * by itself. @throws ApiError
 */
export async function newInstance(ctx: RequestContext, asked: Asked): Promise<{ id: string; desired: Desired }> {
  const { template, place } = asked;
  const { content } = template.desired;
  const name = asked.name ?? slugOf(template.desired.name);
  const id = ctx.random.id();
  const declared = await declare(ctx, { id, name, place, content, given: asked.variables });
  return {
    id,
    desired: {
      ...place.fields,
      name,
      template_id: template.meta.id,
      template_name: template.desired.name,
      content,
      ...declared,
      requested_by: ctx.principal.user.meta.id,
    },
  };
}

interface Declaring {
  id: string;
  name: string;
  place: Place;
  content: string;
  given: Readonly<Record<string, string>>;
  /** Of the revision that is to be changed. */
  former?: { values: ReadonlyMap<string, FormerValue>; children: Formers };
}

/** Children that are there, by kind and key: what is declared anew stays what it is. */
export type Formers = ReadonlyMap<string, DeepReadonly<InstanceChild>>;

export function formerKey({ kind, key }: Pick<DeepReadonly<InstanceChild>, 'kind' | 'key'>): string {
  return `${kind} ${key}`;
}

/** What a text with values declares: sealed, judged as if each child were created or changed by itself. @throws ApiError */
export async function declare(
  ctx: RequestContext,
  { id, name, place, content, given, former }: Declaring,
): Promise<Pick<Desired, 'variables' | 'children' | 'template_version'>> {
  const read = readTemplate(content);
  const [fault] = read.findings.errors;
  if (fault !== undefined)
    throw conflicting(`The template is not valid: line ${fault.line}, column ${fault.column}: ${fault.message}`);
  const values = valuesFrom(read.variables, given, {
    random: ctx.random,
    now: ctx.clock.now(),
    former: former?.values,
  });
  const ground = {
    id,
    name,
    place,
    values,
    formers: former?.children ?? new Map<string, DeepReadonly<InstanceChild>>(),
  };
  const children = await new Planner(ctx, ground).plan(read.resources);
  const bytes = Buffer.byteLength(JSON.stringify(children));
  if (bytes > maxChildrenBytes)
    throw badRequest(
      `What the template makes has ${Math.ceil(bytes / 1024)} KiB in all and at most ${maxChildrenBytes / 1024} KiB are allowed: shorten values of variables`,
    );
  const { version } = read.metadata;
  return { variables: sealedValues(ctx, id, values), children, ...defined({ template_version: version }) };
}

function placeOfValue(tenant: string, id: string, name: string): SealPlace {
  return { tenant, kind: 'template_instance', id, path: `variables.${name}` };
}

function sealedValues(
  { sealer, tenant }: Pick<RequestContext, 'sealer' | 'tenant'>,
  id: string,
  values: ReadonlyMap<string, Value>,
): Desired['variables'] {
  return Object.fromEntries(
    [...values].map(([name, { variable, text, isGenerated, isDefault }]) => [
      name,
      {
        type: variable.type,
        value: sealer.seal(text, placeOfValue(tenant, id, name)),
        ...(isGenerated && { generated: true as const }),
        ...(isDefault && { default: true as const }),
      },
    ]),
  );
}

/** The values of a revision in plain text. @throws Error if one does not open */
export function openedValues(
  { unsealer, tenant }: Pick<RequestContext, 'unsealer' | 'tenant'>,
  id: string,
  variables: DeepReadonly<Desired['variables']>,
): Map<string, FormerValue> {
  return new Map(
    Object.entries(variables).map(([name, it]) => [
      name,
      {
        text: unsealer.unseal(it.value, placeOfValue(tenant, id, name)),
        isGenerated: it.generated === true,
        isDefault: it.default === true,
      },
    ]),
  );
}

interface Ground {
  id: string;
  name: string;
  place: Place;
  values: ReadonlyMap<string, Value>;
  formers: Formers;
}

/** Makes the desired states of the children of one instance, each after those that it refers to. */
class Planner {
  readonly #ctx: RequestContext;
  readonly #ground: Ground;
  readonly #rendering: Rendering;
  readonly #made = new Map<string, InstanceChild>();
  readonly #hostNames = new Set<string>();
  /** Applications by the domains that lead to them. */
  readonly #addresses = new Map<string, string>();
  #chars = 0;

  constructor(ctx: RequestContext, ground: Ground) {
    this.#ctx = ctx;
    this.#ground = ground;
    this.#rendering = {
      variable: (name) => ground.values.get(name)?.text,
      plain: (mention) => this.#plain(mention),
      nameOf: (mention) => {
        this.#requirePooled(mention);
        return this.#nameOf(mention.name);
      },
      count: (chars) => {
        this.#chars += chars;
        if (this.#chars > maxRenderedChars)
          throw badRequest(
            `With these variables the template is longer than ${maxRenderedChars / 1024} KiB: shorten their values`,
          );
      },
    };
  }

  /** @throws ApiError */
  async plan(resources: readonly Declared[]): Promise<InstanceChild[]> {
    const { place } = this.#ground;
    this.#requireRoom(resources);
    for (const it of resources) this.#made.set(`${it.section}.${it.name}`, await this.#child(it));
    const children = [...this.#made.values()];
    requireFreeNames(this.#ctx, this.#ground, children);
    requirePorts(this.#ctx, place, children);
    const coming = children.flatMap((it) =>
      it.kind === 'application'
        ? [{ server: place.server.meta.id, desired: it.desired, ...defined({ before: this.#liveApplication(it.id) }) }]
        : [],
    );
    requireServerRoom(this.#ctx.view, coming, 'server_id');
    return children;
  }

  #liveApplication(id: string): DeepReadonly<DesiredOf<'application'>> | undefined {
    return this.#ctx.view.get('application', id)?.desired;
  }

  #requireRoom(resources: readonly Declared[]): void {
    const { view } = this.#ctx;
    const { formers, place } = this.#ground;
    const { fields } = place;
    const count = (section: Declared['section']): number =>
      resources.filter((it) => it.section === section && !formers.has(`${sections[section].kind} ${it.name}`)).length;
    const [applications, databases, functions] = [count('applications'), count('databases'), count('functions')];
    const volumes = count('volumes') + databases;
    // other instances make theirs later, and ask nobody then
    const toCome = childrenToCome(view, fields.project_id);
    const coming = (kind: InstanceChild['kind']): number => toCome.filter((it) => it.kind === kind).length;
    if (applications > 0) requireApplicationRoom(view, fields, { adding: applications + coming('application') });
    if (databases > 0) requireDatabaseRoom(view, fields.project_id, { adding: databases + coming('database') });
    if (functions > 0) requireFunctionRoom(view, fields.project_id, { adding: functions + coming('function') });
    if (volumes > 0)
      requireVolumeRoom(view, fields.project_id, { adding: volumes + coming('volume') + coming('database') });
  }

  #nameOf(key: string): string {
    const { name } = this.#ground;
    return key === name ? name : `${name}-${key}`;
  }

  #former<K extends InstanceChild['kind']>(kind: K, key: string): DeepReadonly<ChildOf<K>> | undefined {
    const it = this.#ground.formers.get(formerKey({ kind, key }));
    return isOfKind(it, kind) ? it : undefined;
  }

  async #child(it: Declared): Promise<InstanceChild> {
    const { fields } = this.#ground.place;
    const { name: key, wave } = it;
    const whose = { ...fields, template_instance_id: this.#ground.id };
    switch (it.section) {
      case 'volumes': {
        const { labels } = this.#body(it, TemplateVolume);
        const desired = { ...whose, name: this.#nameOf(key) };
        const id = this.#former('volume', key)?.id ?? this.#ctx.random.id();
        return { kind: 'volume', id, key, wave, declared: ['name'], ...defined({ labels }), desired };
      }
      case 'databases': {
        const { labels, ...body } = this.#body(it, TemplateDatabase);
        const { id, desired } = this.#database(body, key);
        const declared = fieldsOf(body);
        return { kind: 'database', id, key, wave, declared, ...defined({ labels }), desired: { ...desired, ...whose } };
      }
      case 'applications':
        return this.#application(it);
      case 'functions':
        return this.#function(it);
    }
  }

  #function(it: Declared): InstanceChild {
    const ctx = this.#ctx;
    const { fields } = this.#ground.place;
    const sent = this.#body(it, TemplateFunction);
    const { env, labels, schedule, schedule_config, ...body } = sent;
    const trigger = defined({ schedule, schedule_config });
    const isTriggered = [schedule, schedule_config, body.trigger_type].some((one) => one !== undefined);
    const former = this.#former('function', it.name);
    const declared = { ...body, ...trigger, name: this.#nameOf(it.name) };
    const { id, desired } = judged(it, () => newFunction(ctx, fields, declared, former));
    desired.config.env = sealFunctionEnv(ctx, id, env ?? {});
    requireEnvRoom(desired.config.env);
    const references = referencesOf(env ?? {});
    if (references !== undefined) desired.config.references = references;
    return {
      kind: 'function',
      id,
      key: it.name,
      wave: it.wave,
      declared: fieldsOf({ ...body, ...defined({ env, trigger_type: isTriggered || undefined }) }),
      ...defined({ labels }),
      desired: { ...desired, template_instance_id: this.#ground.id },
    };
  }

  /** A database whose type, version, user or database is another one is a new one. */
  #database(sent: Omit<TemplateDatabase, 'labels'>, key: string): { id: string; desired: DesiredOf<'database'> } {
    const ctx = this.#ctx;
    const { fields } = this.#ground.place;
    const body = { ...sent, name: this.#nameOf(key) };
    const former = this.#former('database', key);
    if (former === undefined) return newDatabase(ctx, fields, body, ctx.random.id());
    const was = former.desired;
    const version = body.version ?? (body.type === was.type ? was.version : undefined);
    const named = { ...body, ...defined({ version }) };
    const { desired } = newDatabase(ctx, fields, named, was.data_volume_id, former.id);
    if (isOtherDatabase(was, desired)) return newDatabase(ctx, fields, named, ctx.random.id());
    if (typeof body.password === 'string' && !ctx.sealer.isSame(ctx.tenant, was.password, desired.password))
      throw conflicting(
        `The password of database ${key} cannot be changed by its template: change it by POST /databases/${former.id}/rotate-password`,
      );
    const { internal_id, password, config, image } = plainCopy<DesiredOf<'database'>>(was);
    const { image: _usual, ...rest } = desired;
    return { id: former.id, desired: { ...rest, internal_id, password, config, ...defined({ image }) } };
  }

  async #application(it: Declared): Promise<InstanceChild> {
    const ctx = this.#ctx;
    const { fields, server, project } = this.#ground.place;
    const former = this.#former('application', it.name);
    const sent = this.#body(it, TemplateApplication);
    const { env = {}, volumes = [], depends_on: _after, domains, labels, ...body } = sent;
    const source_type = body.source_type ?? (typeof body.repository_url === 'string' ? 'git' : 'image');
    const { id, desired } = newApplication(
      ctx,
      fields,
      { ...body, source_type, name: this.#nameOf(it.name) },
      { hostNames: this.#hostNames, known: former },
    );
    if (desired.host_name !== undefined) this.#hostNames.add(desired.host_name);
    desired.config.env = sealEnv(ctx, id, env ?? {});
    requireEnvRoom(desired.config.env);
    const references = referencesOf(env ?? {});
    if (references !== undefined) desired.config.references = references;
    desired.mounts = volumes.flatMap(({ volume, path, read_only: readOnly = false }) => {
      const made = this.#made.get(`volumes.${volume}`);
      return made === undefined ? [] : [{ volume_id: made.id, path, read_only: readOnly }];
    });
    if (desired.replicas > 1 && desired.mounts.some((mount) => !mount.read_only))
      throw badField(
        'variables',
        'exclusive',
        `Application ${it.name} of the template may write to a volume: it can have one replica only`,
      );
    const of = { projectId: project.meta.id, serverId: server.meta.id };
    const same = former === undefined ? {} : { id: former.id, before: former.desired.domains };
    desired.domains = (await domainsFrom(ctx, domains, { ...of, ...same })) ?? [];
    this.#requireOwnAddresses(desired.domains, it.name);
    return {
      kind: 'application',
      id,
      key: it.name,
      wave: it.wave,
      declared: fieldsOf({ ...sent, source_type }),
      ...defined({ labels }),
      desired: { ...desired, template_instance_id: this.#ground.id },
    };
  }

  /** @throws ApiError BAD_REQUEST for a domain that two applications of the template would have */
  #requireOwnAddresses(domains: readonly Domain[], key: string): void {
    for (const address of domains.map(domainName)) {
      const other = this.#addresses.get(address);
      if (other !== undefined)
        throw badField(
          'variables',
          'duplicate',
          `${address} would lead to ${other} and to ${key} of the template: a domain leads to one application`,
        );
      this.#addresses.set(address, key);
    }
  }

  /** The fields of a declaration. @throws ApiError BAD_REQUEST naming the field that a value of a variable makes wrong */
  #body<S extends z.ZodType>(it: Declared, schema: S): z.output<S> {
    const parsed = parseWritten(schema, render(it, this.#rendering), 'The template');
    if ('data' in parsed) return parsed.data;
    throw badRequest(
      `With these variables ${it.section}.${it.name} is not valid: ${parsed.faults[0]?.message ?? ''}`,
      parsed.faults.map(({ path, reason, message }) => ({
        field: ['variables', it.section, it.name, ...path.map(String)].join('.'),
        reason,
        message,
      })),
    );
  }

  /** What stands for a reference outside of variables: no secret does. */
  #plain({ of, name, attribute }: Mention): string {
    const made = this.#made.get(`${of}.${name}`);
    if (made === undefined) return '';
    switch (made.kind) {
      case 'volume':
        return made.id;
      case 'database':
        this.#requirePooled({ of, name, attribute });
        return databaseText(made.desired, attribute);
      case 'application':
        return applicationText(made.desired, attribute);
      case 'function':
        throw new Error(`Nothing refers to the ${attribute} of a function`);
    }
  }

  /** @throws ApiError BAD_REQUEST for what only a pooler has, of a database without one */
  #requirePooled({ of, name, attribute }: Mention): void {
    const made = this.#made.get(`${of}.${name}`);
    if (made?.kind !== 'database' || !pooledAttributes.includes(attribute)) return;
    if (made.desired.connection_pooling !== true)
      throw badRequest(
        `The template takes ${attribute} of database ${name}, whose connections are not pooled: declare connection_pooling: true there`,
      );
  }
}

/** What a declaration makes. @throws ApiError BAD_REQUEST naming the declaration and the field that values make wrong */
function judged<T>(it: Declared, make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'BAD_REQUEST') throw error;
    const [first] = error.details;
    const field = [it.section, it.name, ...(first === undefined ? [] : [first.field])].join('.');
    const details = error.details.map((one) => ({ ...one, field: `variables.${it.section}.${it.name}.${one.field}` }));
    throw badRequest(`With these variables ${field} is not valid: ${error.message}`, details);
  }
}

function databaseText(desired: DesiredOf<'database'>, attribute: string): string {
  switch (attribute) {
    case 'host':
      return desired.internal_id;
    case 'port':
      return String(engines[desired.type].port);
    case 'pooled_host':
      return sideHost(desired.internal_id, poolerService);
    case 'pooled_port':
      return String(engines[desired.type].pooler?.port);
    case 'user':
      return desired.database_user;
    case 'name':
      return desired.database_name;
    default:
      throw new Error(`Only variables may have ${attribute} of a database`);
  }
}

function applicationText({ internal_id: host, config }: DesiredOf<'application'>, attribute: string): string {
  const port = config.exposed_port;
  if (attribute === 'host') return host;
  if (port === undefined)
    throw conflicting(`The template refers to the ${attribute} of an application that has no exposed_port`);
  return attribute === 'port' ? String(port) : `http://${host}:${port}`;
}

/** The references in variables, each once; `undefined`: no value has one, or the escape of one. */
function referencesOf(env: Readonly<Record<string, string>>): string[] | undefined {
  const concerned = Object.values(env).filter(hasReferences);
  if (concerned.length === 0) return undefined;
  const texts = concerned.flatMap((value) => {
    const parsed = parseReferences(value);
    if ('fault' in parsed) throw badRequest(`A variable of the template cannot be used as ${parsed.fault}`);
    return parsed.parts.flatMap((part) => (typeof part === 'string' ? [] : [referenceText(part)]));
  });
  return [...new Set(texts)].toSorted();
}

type ChildOf<K extends InstanceChild['kind']> = Extract<InstanceChild, { kind: K }>;

function isOfKind<K extends InstanceChild['kind']>(
  it: DeepReadonly<InstanceChild> | undefined,
  kind: K,
): it is DeepReadonly<ChildOf<K>> {
  return it?.kind === kind;
}

/** The fields that a declaration speaks for. */
function fieldsOf(body: object): string[] {
  return Object.entries(body).flatMap(([field, value]) => (value === undefined ? [] : [field]));
}

/** @throws ApiError CONFLICT with each name that another object of the environment has */
function requireFreeNames(
  { view }: RequestContext,
  { place: { environment }, formers }: Ground,
  children: readonly InstanceChild[],
): void {
  const own = new Set([...formers.values()].map(({ id }) => id));
  const taken: ErrorDetail[] = [];
  for (const { kind, desired } of children) {
    const folded = foldName(desired.name);
    const others: readonly ReadonlyResource<InstanceChildKind>[] = view.by(kind, 'environment', environment.meta.id);
    const isTaken = others.some(
      (it) => foldName(it.desired.name) === folded && !('database_id' in it.desired) && !own.has(it.meta.id),
    );
    if (isTaken)
      taken.push({
        field: 'name',
        reason: 'taken',
        message: `The environment has a ${kind} named ${desired.name} already`,
      });
  }
  const [first] = taken;
  if (first !== undefined) throw conflicting(`${first.message}: choose another name for the instance`, taken);
}

/** @throws ApiError CONFLICT for a port of the server that cannot be given, or that two of them would have */
function requirePorts(ctx: RequestContext, { fields, server }: Place, children: readonly InstanceChild[]): void {
  const owners = new Map<number, string>();
  for (const { kind, id, key, desired } of children) {
    const port =
      kind === 'application' ? desired.config.exposed_port : kind === 'volume' ? undefined : desired.exposed_port;
    if (port === undefined) continue;
    requirePort(ctx, { id, projectId: fields.project_id, serverId: fields.server_id, port });
    const owner = owners.get(port);
    if (owner !== undefined && server.desired.direct_ports_enabled)
      throw conflicting(
        `Port ${port} of the server would belong to ${owner} and to ${key}: the server opens ports, and each leads to one`,
      );
    owners.set(port, key);
  }
}
