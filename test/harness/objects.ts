import { randomUUID } from 'node:crypto';
import type { DesiredOf, KindName, ObservedOf } from '../../store/kinds/kinds.ts';
import { kinds } from '../../store/kinds/kinds.ts';
import type { ConditionInput, Meta, Resource } from '../../store/resource.ts';
import { revision } from '../../store/revision.ts';

/** Builds an object as the mirror would hold it, for tests of pure functions. */
export function object<K extends KindName>(
  kind: K,
  desired: unknown,
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
  const parsed = kinds[kind].desired.parse(desired) as DesiredOf<K>; // the schema of that kind yields its type
  if (options.observed === undefined) return { meta, desired: parsed };
  const observed = {
    ...options.observed,
    observedGeneration: options.observedGeneration ?? generation,
    conditions: (options.conditions ?? []).map((it) => ({
      ...it,
      observedGeneration: generation,
      changedAt: '2026-01-01T00:00:00.000Z',
    })),
  };
  return { meta, desired: parsed, observed };
}

export function aServer(overrides: Partial<DesiredOf<'server'>> = {}): Resource<'server'> {
  return object('server', { name: 'one', ...overrides }, { observed: { phase: 'active' } });
}

export function anApplication(
  overrides: Partial<DesiredOf<'application'>> = {},
  options: { observed?: ObservedOf<'application'>; deleting?: boolean; id?: string } = {},
): Resource<'application'> {
  return object(
    'application',
    {
      project_id: randomUUID(),
      environment_id: randomUUID(),
      server_id: randomUUID(),
      name: 'web',
      internal_id: 'web-0a1b2c',
      source: { type: 'image', image_url: 'example/web:1' },
      config: {},
      run: 'running',
      ...overrides,
    },
    options,
  );
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
      number: 1,
      trigger: 'manual',
      source: app.desired.source,
      config: app.desired.config,
      queued_at: '2026-01-01T00:00:00.000Z',
      ...overrides,
    },
    observed === undefined ? {} : { observed },
  );
}
