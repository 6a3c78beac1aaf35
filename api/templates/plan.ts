import type { z } from 'zod';
import { engines } from '../../databases/engines.ts';
import { defined } from '../../store/defined.ts';
import { parseWritten } from '../../store/faults.ts';
import { foldName } from '../../store/fold-name.ts';
import { childrenToCome } from '../../store/instance-progress.ts';
import { domainName } from '../../store/kinds/domain.ts';
import type { Domain } from '../../store/kinds/domain.ts';
import { slugOf } from '../../store/kinds/internal-id.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { maxChildrenBytes } from '../../store/kinds/template-instance.ts';
import type { InstanceChild } from '../../store/kinds/template-instance.ts';
import { parseReferences, hasReferences, referenceText } from '../../store/references.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { badField, badRequest, conflicting } from '../ground/api-error.ts';
import type { ErrorDetail } from '../ground/api-error.ts';
import { sealEnv } from '../workloads/application-env.ts';
import { domainsFrom } from '../workloads/domains.ts';
import { newApplication, requireApplicationRoom, requireVolumeRoom } from '../workloads/new-application.ts';
import { newDatabase, requireDatabaseRoom } from '../workloads/new-database.ts';
import type { Place } from '../workloads/place.ts';
import { requirePort } from '../workloads/ports.ts';
import { requireEnvRoom, requireServerRoom } from '../workloads/server-room.ts';
import type { Declared } from './declared.ts';
import { TemplateApplication, TemplateDatabase, TemplateVolume } from './document.ts';
import type { Mention } from './expression.ts';
import { maxRenderedChars } from './limits.ts';
import { readTemplate } from './read.ts';
import { render } from './render.ts';
import type { Rendering } from './render.ts';
import { valuesFrom } from './values.ts';
import type { Value } from './values.ts';

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
  const read = readTemplate(template.desired.content);
  const [fault] = read.findings.errors;
  if (fault !== undefined)
    throw conflicting(`The template is not valid: line ${fault.line}, column ${fault.column}: ${fault.message}`);
  const functions = read.resources.filter(({ section }) => section === 'functions').map(({ name }) => name);
  if (functions.length > 0)
    throw conflicting(
      `The template declares functions, which this release cannot run yet: ${functions.join(', ')}. Take them out, or run each as an application`,
    );
  const values = valuesFrom(read.variables, asked.variables, { random: ctx.random, now: ctx.clock.now() });
  const name = asked.name ?? slugOf(template.desired.name);
  const id = ctx.random.id();
  const children = await new Planner(ctx, { id, name, place, values }).plan(read.resources);
  const bytes = Buffer.byteLength(JSON.stringify(children));
  if (bytes > maxChildrenBytes)
    throw badRequest(
      `What the template makes has ${Math.ceil(bytes / 1024)} KiB in all and at most ${maxChildrenBytes / 1024} KiB are allowed: shorten values of variables`,
    );
  return {
    id,
    desired: {
      ...place.fields,
      name,
      template_id: template.meta.id,
      template_name: template.desired.name,
      variables: sealedValues(ctx, id, values),
      children,
      requested_by: ctx.principal.user.meta.id,
    },
  };
}

function sealedValues(
  { sealer, tenant }: Pick<RequestContext, 'sealer' | 'tenant'>,
  id: string,
  values: ReadonlyMap<string, Value>,
): Desired['variables'] {
  return Object.fromEntries(
    [...values].map(([name, { variable, text, isGenerated }]) => [
      name,
      {
        type: variable.type,
        value: sealer.seal(text, { tenant, kind: 'template_instance', id, path: `variables.${name}` }),
        ...(isGenerated && { generated: true as const }),
      },
    ]),
  );
}

interface Ground {
  id: string;
  name: string;
  place: Place;
  values: ReadonlyMap<string, Value>;
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
      nameOf: ({ name }) => this.#nameOf(name),
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
    requireFreeNames(this.#ctx, place, children);
    requirePorts(this.#ctx, place, children);
    const coming = children.flatMap((it) =>
      it.kind === 'application' ? [{ server: place.server.meta.id, desired: it.desired }] : [],
    );
    requireServerRoom(this.#ctx.view, coming, 'server_id');
    return children;
  }

  #requireRoom(resources: readonly Declared[]): void {
    const { view } = this.#ctx;
    const { fields } = this.#ground.place;
    const count = (section: Declared['section']): number => resources.filter((it) => it.section === section).length;
    const [applications, databases] = [count('applications'), count('databases')];
    const volumes = count('volumes') + databases;
    // other instances make theirs later, and ask nobody then
    const toCome = childrenToCome(view, fields.project_id);
    const coming = (kind: InstanceChild['kind']): number => toCome.filter((it) => it.kind === kind).length;
    if (applications > 0) requireApplicationRoom(view, fields, { adding: applications + coming('application') });
    if (databases > 0) requireDatabaseRoom(view, fields.project_id, { adding: databases + coming('database') });
    if (volumes > 0)
      requireVolumeRoom(view, fields.project_id, { adding: volumes + coming('volume') + coming('database') });
  }

  #nameOf(key: string): string {
    const { name } = this.#ground;
    return key === name ? name : `${name}-${key}`;
  }

  async #child(it: Declared): Promise<InstanceChild> {
    const { fields } = this.#ground.place;
    const { name: key, wave } = it;
    const whose = { ...fields, template_instance_id: this.#ground.id };
    switch (it.section) {
      case 'volumes': {
        const { labels } = this.#body(it, TemplateVolume);
        const desired = { ...whose, name: this.#nameOf(key) };
        return { kind: 'volume', id: this.#ctx.random.id(), key, wave, ...defined({ labels }), desired };
      }
      case 'databases': {
        const { labels, ...body } = this.#body(it, TemplateDatabase);
        const { id, desired } = newDatabase(
          this.#ctx,
          fields,
          { ...body, name: this.#nameOf(key) },
          this.#ctx.random.id(),
        );
        return { kind: 'database', id, key, wave, ...defined({ labels }), desired: { ...desired, ...whose } };
      }
      case 'applications':
        return this.#application(it);
      case 'functions':
        throw new Error('Functions of a template were refused before');
    }
  }

  async #application(it: Declared): Promise<InstanceChild> {
    const ctx = this.#ctx;
    const { fields, server, project } = this.#ground.place;
    const {
      env = {},
      volumes = [],
      depends_on: _after,
      domains,
      labels,
      ...body
    } = this.#body(it, TemplateApplication);
    const source_type = body.source_type ?? (typeof body.repository_url === 'string' ? 'git' : 'image');
    const { id, desired } = newApplication(
      ctx,
      fields,
      { ...body, source_type, name: this.#nameOf(it.name) },
      this.#hostNames,
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
    desired.domains = (await domainsFrom(ctx, domains, { projectId: project.meta.id, serverId: server.meta.id })) ?? [];
    this.#requireOwnAddresses(desired.domains, it.name);
    return {
      kind: 'application',
      id,
      key: it.name,
      wave: it.wave,
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
        return databaseText(made.desired, attribute);
      case 'application':
        return applicationText(made.desired, attribute);
    }
  }
}

function databaseText(desired: DesiredOf<'database'>, attribute: string): string {
  switch (attribute) {
    case 'host':
      return desired.internal_id;
    case 'port':
      return String(engines[desired.type].port);
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

/** @throws ApiError CONFLICT with each name that another object of the environment has */
function requireFreeNames({ view }: RequestContext, { environment }: Place, children: readonly InstanceChild[]): void {
  const taken: ErrorDetail[] = [];
  for (const { kind, desired } of children) {
    const folded = foldName(desired.name);
    const others: readonly ReadonlyResource<'application' | 'database' | 'volume'>[] = view.by(
      kind,
      'environment',
      environment.meta.id,
    );
    const isTaken = others.some((it) => foldName(it.desired.name) === folded && !('database_id' in it.desired));
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
  for (const { kind, key, desired } of children) {
    const port =
      kind === 'application' ? desired.config.exposed_port : kind === 'database' ? desired.exposed_port : undefined;
    if (port === undefined) continue;
    requirePort(ctx, { projectId: fields.project_id, serverId: fields.server_id, port });
    const owner = owners.get(port);
    if (owner !== undefined && server.desired.direct_ports_enabled)
      throw conflicting(
        `Port ${port} of the server would belong to ${owner} and to ${key}: the server opens ports, and each leads to one`,
      );
    owners.set(port, key);
  }
}
