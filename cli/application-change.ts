import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { DomainInput } from '../api/resources/domain.ts';
import type { ApplicationManifest } from '../manifests/application.ts';
import type { ApiObject } from './client.ts';

/** One difference between a declared application and the existing one. */
export interface Change {
  field: string;
  /** The change in words; it never contains values of variables. */
  text: string;
  /** Whether it takes effect only by a deployment that the server does not start itself. */
  isSource: boolean;
}

const sourceFields: readonly string[] = [
  'source_type',
  'repository_url',
  'branch',
  'dockerfile_path',
  'build_context',
  'build_args',
  'build_secrets',
  'git_credential_id',
  'submodules',
  'image_url',
  'compose_file',
  'compose_path',
  'compose_service',
];

/** The variables of an application as the caller sees them. */
export interface Variables {
  env: Readonly<Record<string, string>>;
  /** Whether the values are hidden. */
  masked: boolean;
}

/** Ids of what a manifest names, by the field of the API. */
export type References = Readonly<Record<string, string>>;

/** All declared fields that differ from the present ones; fields that are not declared stay as they are. Pure. */
export function changesOf(
  declared: ApplicationManifest,
  now: ApiObject,
  variables: Variables | undefined,
  references: References = {},
): Change[] {
  const { project: _p, environment: _e, server: _s, git_credential: _g, registry: _r, env, ...rest } = declared.spec;
  const { build_args, build_secrets, domains, compose_file: file, ...fields } = rest;
  const { labels } = declared.metadata;
  const plain = Object.entries({ ...fields, ...references, ...(labels !== undefined && { labels }) })
    .filter(([field, value]) => value !== undefined && !isDeepStrictEqual(value, now[field]))
    .map(([field, value]) => change(field, `${shown(now[field])} → ${shown(value)}`));
  const args = Object.entries({ build_args, build_secrets }).flatMap(([field, values]) =>
    values === undefined ? [] : [change(field, 'may change: the server does not show them')],
  );
  return [
    ...plain,
    ...args,
    ...(file === undefined || file === now['compose_file'] ? [] : [change('compose_file', 'is another text')]),
    ...domainChanges(domains, now['domains']),
    ...(env === undefined || variables === undefined ? [] : envChanges(env, variables)),
  ];
}

/** A declared domain leaves out what has its default, and what the proxy compares is in lower case. */
function domainChanges(declared: ApplicationManifest['spec']['domains'], now: unknown): Change[] {
  if (declared === undefined) return [];
  const present = Shown.parse(now ?? []);
  const wanted = declared.map((it) => DomainInput.safeParse(it));
  const isSame =
    wanted.length === present.length &&
    wanted.every(({ data }, at) => data !== undefined && isDomain(data, present[at]));
  if (!isSame) return [change('domains', `${addresses(present)} → ${addresses(declared)}`)];
  const hasPasswords = wanted.some(({ data }) => data?.basic_auth?.some(({ password }) => password !== undefined));
  return hasPasswords ? [change('domains', 'may change: the server does not show passwords')] : [];
}

const Shown = z.array(z.looseObject({ host: z.string() }));

function isDomain({ path, basic_auth, headers, ...rest }: DomainInput, now: Record<string, unknown> = {}): boolean {
  const users = (basic_auth ?? []).map(({ username }) => ({ username }));
  const wanted = {
    service: null,
    port: null,
    tls: 'on',
    redirect_to: null,
    max_body_bytes: null,
    timeout_seconds: null,
    ...Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== null)),
    path: path ?? '/',
    basic_auth: users,
    headers: { set: headers?.set ?? {}, remove: headers?.remove ?? [] },
  };
  return isDeepStrictEqual(wanted, now);
}

function addresses(list: readonly { host: string; path?: unknown }[]): string {
  return list.map(({ host, path }) => (typeof path === 'string' ? host + path : host)).join(', ') || 'none';
}

function envChanges(declared: Readonly<Record<string, string>>, { env, masked }: Variables): Change[] {
  const names = [...new Set([...Object.keys(env), ...Object.keys(declared)])].toSorted();
  return names.flatMap((name) => {
    const [before, after] = [env[name], declared[name]];
    const what =
      before === undefined
        ? 'is set'
        : after === undefined
          ? 'is removed'
          : masked
            ? 'may change: its value is hidden from you'
            : before === after
              ? undefined
              : 'changes';
    return what === undefined ? [] : [change(`env.${name}`, what)];
  });
}

function change(field: string, text: string): Change {
  return { field, text, isSource: sourceFields.includes(field) };
}

function shown(value: unknown): string {
  if (value === undefined || value === null) return 'none';
  // what JSON can contain
  return typeof value === 'object' ? JSON.stringify(value) : `${value as string | number | boolean}`;
}
