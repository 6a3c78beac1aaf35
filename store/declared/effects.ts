import type { DeepReadonly } from '../deep-readonly.ts';
import type { DesiredOf } from '../kinds/kinds.ts';
import { fieldOfPath } from './leaves.ts';
import type { DeclaredKind } from './leaves.ts';

/** What a change does to what runs and to what is kept; `null`: nothing of that. */
export interface Effects {
  interrupts: string | null;
  loses_data: string | null;
}

const none: Effects = { interrupts: null, loses_data: null };

/** Fields of a database that are what it is: another value is another database. */
const identity: readonly string[] = ['type', 'version', 'database_name', 'database_user'];

/** Fields of a database that its engine does not run with. */
const besideEngine: readonly string[] = ['name', 'display_name', 'connection_pooling'];

/** Whether a database with these values would be another one. */
export function isOtherDatabase(one: DeepReadonly<DesiredOf<'database'>>, other: DesiredOf<'database'>): boolean {
  return (
    one.type !== other.type ||
    one.version !== other.version ||
    one.database_name !== other.database_name ||
    one.database_user !== other.database_user
  );
}

/** What it means to write these leaves. Pure. */
export function effectsOfChange(
  kind: DeclaredKind,
  paths: readonly string[],
  desired: DeepReadonly<DesiredOf<DeclaredKind>>,
): Effects {
  switch (kind) {
    case 'environment':
    case 'volume':
    case 'function':
    case 'template_instance':
      return none;
    case 'database': {
      const fields = paths.map(fieldOfPath);
      if (fields.some((field) => identity.includes(field))) return effectsOfReplacement(kind);
      const restarts = fields.some((field) => !besideEngine.includes(field));
      return restarts ? { ...none, interrupts: 'It is restarted' } : none;
    }
    case 'application': {
      if (!needsInstances(paths) || !('mounts' in desired)) return none;
      const isAlone = desired.mounts.some(({ read_only }) => !read_only);
      return isAlone
        ? { ...none, interrupts: 'It may write to a volume: its instance ends before the next one begins' }
        : none;
    }
  }
}

/** What it means to delete an object and make another one in its place. Pure. */
export function effectsOfReplacement(kind: DeclaredKind): Effects {
  return {
    interrupts: 'It is deleted, and another one is made in its place',
    loses_data: hasData(kind) ? 'What it holds is deleted, and the other one begins empty' : null,
  };
}

/** What it means to delete an object. Pure. */
export function effectsOfDeletion(kind: DeclaredKind): Effects {
  return {
    interrupts: kind === 'volume' || kind === 'environment' ? null : 'It is deleted',
    loses_data: hasData(kind) ? 'What it holds is deleted' : null,
  };
}

function hasData(kind: DeclaredKind): boolean {
  return kind !== 'application' && kind !== 'function' && kind !== 'environment';
}

/** Whether an application gets other instances by a change of these leaves. */
function needsInstances(paths: readonly string[]): boolean {
  return needsDeployment(paths) || paths.includes('mounts');
}

/** Whether the change of these leaves of a function reaches calls by another version alone. */
export function needsVersion(paths: readonly string[]): boolean {
  const parts: readonly string[] = ['runtime', 'code', 'dependencies'];
  return paths.some((path) => parts.includes(path) || path.startsWith('config/'));
}

/** Whether the change of these leaves reaches instances by a deployment alone. */
export function needsDeployment(paths: readonly string[]): boolean {
  return paths.some((path) => path.startsWith('source/') || path.startsWith('config/'));
}
