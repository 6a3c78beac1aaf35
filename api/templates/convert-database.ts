import { engines } from '../../databases/engines.ts';
import type { PlainComposedService } from '../../store/kinds/composed-service.ts';
import type { Printed } from './print.ts';

type Type = keyof typeof engines;

/** Names of images of engines. */
const images: ReadonlyMap<string, Type> = new Map([
  ['postgres', 'postgres'],
  ['mysql', 'mysql'],
  ['mariadb', 'mariadb'],
  ['redis', 'redis'],
  ['mongo', 'mongodb'],
]);

export interface Recognised {
  type: Type;
  version: string;
}

/** The engine of a service whose image is an official one of a version that databases have; `undefined`: it is none. */
export function recognised({ image }: Pick<PlainComposedService, 'image'>): Recognised | undefined {
  const [, name = '', tag = ''] =
    /^(?:(?:index\.)?docker\.io\/)?(?:library\/)?([a-z]+)(?::([\w.-]+))?$/.exec(image ?? '') ?? [];
  const type = images.get(name);
  if (type === undefined) return undefined;
  const { versions } = engines[type];
  const version = tag === '' || tag === 'latest' ? versions[0] : versions.find((it) => isOf(tag, it));
  return version === undefined ? undefined : { type, version };
}

/** Whether a tag such as `17.2-alpine` is of a version such as `17`; one such as `8` is of the newest of that series. */
function isOf(tag: string, version: string): boolean {
  return (
    tag === version || tag.startsWith(`${version}.`) || tag.startsWith(`${version}-`) || version.startsWith(`${tag}.`)
  );
}

/** Variables by which official images are told user, password and name. */
const fields: Readonly<Record<string, 'database_user' | 'password' | 'database_name'>> = {
  POSTGRES_USER: 'database_user',
  POSTGRES_PASSWORD: 'password',
  POSTGRES_DB: 'database_name',
  MYSQL_USER: 'database_user',
  MYSQL_PASSWORD: 'password',
  MYSQL_DATABASE: 'database_name',
  MARIADB_USER: 'database_user',
  MARIADB_PASSWORD: 'password',
  MARIADB_DATABASE: 'database_name',
};

/** The field of a database that a variable of an official image tells; `undefined`: none. */
export function databaseField(variable: string): string | undefined {
  return Object.hasOwn(fields, variable) ? fields[variable] : undefined;
}

/** A database with what its variables say of user, password and name. */
export function convertDatabase(
  name: string,
  { type, version }: Recognised,
  env: Readonly<Record<string, string>>,
): Printed['databases'][number] {
  const given = Object.entries(fields).flatMap(([key, field]) => {
    const value = Object.hasOwn(env, key) ? env[key] : undefined;
    return value === undefined || value === '' ? [] : [[field, value] as const];
  });
  return { name, type, version, ...Object.fromEntries(given) };
}
