import { readFileSync } from 'node:fs';
import { columns } from '../../api/rights/permissions.ts';
import type { Column, Grant } from '../../api/rights/permissions.ts';
import type { KeyScope } from '../../store/kinds/identity.ts';

/** A line of `test/api/routes.txt`: what tests expect of a route, independent of the table in the code. */
export interface ExpectedRoute {
  grants: Readonly<Record<Column, Grant>>;
  /** Least scope of a service key; `none`: no credential is needed; `session`: no key is let in. */
  scope: KeyScope | 'none' | 'session';
  /** A key below `write` gets the masked answer. */
  isMasked: boolean;
  /** A row of the account that is open to a key narrowed to a project. */
  isOfNarrowed: boolean;
  /** A setting of the tenant may take it from admins. */
  isSwitched: boolean;
  /** Open while the password must be changed. */
  isOpenInReset: boolean;
  /** It is served, and not only declared. */
  isServed: boolean;
}

const grantMarks: readonly string[] = ['+', '-', 'f', 'm', 's', 'P', 'r'] satisfies Grant[];
const scopeWords: readonly string[] = [
  'none',
  'read',
  'deploy',
  'write',
  'admin',
  'session',
] satisfies ExpectedRoute['scope'][];
const flagWords: readonly string[] = ['masked', 'narrowed', 'switched', 'reset', 'later'];

/** Every route that tests expect, by its name. */
export const expectedRoutes: ReadonlyMap<string, ExpectedRoute> = readRoutes('../api/routes.txt', parseRoute);

/** The grants of the contract's own table, which has no scopes and none of the additive routes. */
export const contractGrants: ReadonlyMap<string, Readonly<Record<Column, Grant>>> = readRoutes(
  '../api/contract-routes.txt',
  (words) => grantsOf(words.slice(0, columns.length)),
);

/** @throws Error for a route without a line. */
export function expectedOf(name: string): ExpectedRoute {
  const found = expectedRoutes.get(name);
  if (found === undefined) throw new Error(`Add a line for ${name} to test/api/routes.txt`);
  return found;
}

function parseRoute(words: readonly string[]): ExpectedRoute {
  const [scope, ...flags] = words.slice(columns.length);
  if (!isScope(scope)) throw new Error(`Scope must be one of ${scopeWords.join(', ')}: got ${scope}`);
  const unknown = flags.find((flag) => !flagWords.includes(flag));
  if (unknown !== undefined) throw new Error(`Unknown word after the scope: ${unknown}`);
  return {
    grants: grantsOf(words.slice(0, columns.length)),
    scope,
    isMasked: flags.includes('masked'),
    isOfNarrowed: flags.includes('narrowed'),
    isSwitched: flags.includes('switched'),
    isOpenInReset: flags.includes('reset'),
    isServed: !flags.includes('later'),
  };
}

function grantsOf(marks: readonly string[]): Record<Column, Grant> {
  const cells = columns.map((column, at) => {
    const mark = marks[at];
    if (!isGrant(mark)) throw new Error(`${column} must have a mark: got ${marks.join(' ')}`);
    return [column, mark] as const;
  });
  return Object.fromEntries(cells) as Record<Column, Grant>; // every column is there, as the loop has seen to
}

/** Lines of a file that begin with a method; a path may carry the contract's `/api/v1`. @throws Error naming the line. */
function readRoutes<T>(file: string, parse: (words: readonly string[]) => T): Map<string, T> {
  const rows = new Map<string, T>();
  for (const line of readFileSync(new URL(file, import.meta.url), 'utf8').split('\n')) {
    const [method = '', path = '', ...words] = line.trim().split(/\s+/);
    if (!/^(GET|POST|PUT|PATCH|DELETE|WS)$/.test(method)) continue;
    const name = `${method} ${path.replace(/^\/api\/v1/, '')}`;
    if (rows.has(name)) throw new Error(`${file} has two lines for ${name}`);
    try {
      rows.set(name, parse(words));
    } catch (error) {
      throw new Error(`${file} has a line that cannot be read: ${line}`, { cause: error });
    }
  }
  return rows;
}

function isGrant(mark: string | undefined): mark is Grant {
  return mark !== undefined && grantMarks.includes(mark);
}

function isScope(word: string | undefined): word is ExpectedRoute['scope'] {
  return word !== undefined && scopeWords.includes(word);
}
