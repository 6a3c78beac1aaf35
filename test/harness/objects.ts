import { randomUUID } from 'node:crypto';
import type { DesiredOf, KindName, ObservedOf } from '../../store/kinds/kinds.ts';
import type { ConditionInput, Meta, Resource } from '../../store/resource.ts';
import { revision } from '../../store/revision.ts';
import { desiredState } from './states.ts';

/** Builds an object as the mirror would hold it, for tests of pure functions. */
export function object<K extends KindName>(
  kind: K,
  desired: object,
  options: {
    id?: string;
    observed?: ObservedOf<K>;
    generation?: number;
    observedGeneration?: number;
    deleting?: boolean;
    conditions?: ConditionInput[];
  } = {},
): Resource<K> {
  const generation = options.generation ?? 1;
  const meta: Meta<K> = {
    tenant: 'default',
    kind,
    id: options.id ?? randomUUID(),
    generation,
    desiredRevision: revision(1),
    createdAt: '2026-01-01T00:00:00.000Z',
    updatedAt: '2026-01-01T00:00:00.000Z',
    finalizers: [],
    owners: [],
    labels: {},
    ...(options.deleting === true ? { deletionRequestedAt: '2026-01-01T00:00:01.000Z' } : {}),
  };
  const state = desiredState(kind, desired as Partial<DesiredOf<K>>); // its schema judges it
  if (options.observed === undefined) return { meta, desired: state };
  const observed = {
    ...options.observed,
    observedGeneration: options.observedGeneration ?? generation,
    conditions: (options.conditions ?? []).map((it) => ({
      ...it,
      observedGeneration: generation,
      changedAt: '2026-01-01T00:00:00.000Z',
    })),
  };
  return { meta, desired: state, observed };
}

export function aServer(overrides: Partial<DesiredOf<'server'>> = {}): Resource<'server'> {
  return object('server', { name: 'one', ...overrides }, { observed: { phase: 'active' } });
}

export function anApplication(
  overrides: Partial<DesiredOf<'application'>> = {},
  options: { observed?: ObservedOf<'application'>; deleting?: boolean; id?: string } = {},
): Resource<'application'> {
  return object('application', { name: 'web', run: 'running', ...overrides }, options);
}

export function aDeployment(
  app: Resource<'application'>,
  overrides: Partial<DesiredOf<'deployment'>> = {},
  observed?: ObservedOf<'deployment'>,
): Resource<'deployment'> {
  return object(
    'deployment',
    {
      application_id: app.meta.id,
      project_id: app.desired.project_id,
      environment_id: app.desired.environment_id,
      server_id: app.desired.server_id,
      source: app.desired.source,
      config: app.desired.config,
      queued_at: '2026-01-01T00:00:00.000Z',
      ...overrides,
    },
    observed === undefined ? {} : { observed },
  );
}
