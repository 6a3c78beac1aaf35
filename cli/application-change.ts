import { isDeepStrictEqual } from 'node:util';
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
  'image_url',
];

/** The variables of an application as the caller sees them. */
export interface Variables {
  env: Readonly<Record<string, string>>;
  /** Whether the values are hidden. */
  masked: boolean;
}

/** All declared fields that differ from the present ones; fields that are not declared stay as they are. Pure. */
export function changesOf(declared: ApplicationManifest, now: ApiObject, variables: Variables | undefined): Change[] {
  const { project: _p, environment: _e, server: _s, env, build_args, ...fields } = declared.spec;
  const { labels } = declared.metadata;
  const plain = Object.entries({ ...fields, ...(labels !== undefined && { labels }) })
    .filter(([field, value]) => value !== undefined && !isDeepStrictEqual(value, now[field]))
    .map(([field, value]) => change(field, `${shown(now[field])} → ${shown(value)}`));
  const args = build_args === undefined ? [] : [change('build_args', 'may change: the server does not show them')];
  return [...plain, ...args, ...(env === undefined || variables === undefined ? [] : envChanges(env, variables))];
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
