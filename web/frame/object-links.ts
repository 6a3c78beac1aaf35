import type { Application, Environment, ObjectOf } from '../model.ts';
import { useConsole } from './context.ts';

/** The parts of an application's address: by its project and environment, so that the address says where it is. */
function applicationParts(it: Application, environment: Environment | undefined): readonly string[] {
  return ['projects', it.project_id, environment?.name ?? it.environment_id, 'applications', it.id];
}

export function useApplicationParts(): (it: Application, ...rest: string[]) => readonly string[] {
  const { store } = useConsole();
  return (it, ...rest) => [...applicationParts(it, store.get('environment', it.environment_id)), ...rest];
}

/** The parts of a database's address, by its project and environment as those of an application. */
export function useDatabaseParts(): (it: ObjectOf<'database'>, ...rest: string[]) => readonly string[] {
  const { store } = useConsole();
  return (it, ...rest) => {
    const environment = store.get('environment', it.environment_id)?.name ?? it.environment_id;
    return ['projects', it.project_id, environment, 'databases', it.id, ...rest];
  };
}

/** The parts of a function's address, by its project and environment as those of an application. */
export function useFunctionParts(): (it: ObjectOf<'function'>, ...rest: string[]) => readonly string[] {
  const { store } = useConsole();
  return (it, ...rest) => {
    const environment = store.get('environment', it.environment_id)?.name ?? it.environment_id;
    return ['projects', it.project_id, environment, 'functions', it.id, ...rest];
  };
}

/** The places of kinds whose objects have a page by their id. */
const placesOfKinds: Readonly<Record<string, string>> = {
  application: 'applications',
  database: 'databases',
  deployment: 'deployments',
  function: 'functions',
  project: 'projects',
  restore: 'restores',
  server: 'servers',
  sync: 'syncs',
  template: 'templates',
  template_instance: 'instances',
};

/** The parts of the address of an object by its kind and id; `undefined` if it has no page. */
export function partsOfObject({ kind, id }: { kind: string; id: string }): readonly string[] | undefined {
  const place = placesOfKinds[kind];
  return place === undefined ? undefined : [place, id];
}
