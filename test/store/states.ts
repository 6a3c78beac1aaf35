import type { DesiredOf, ObservedOf } from '../../store/kinds/kinds.ts';
import { kinds } from '../../store/kinds/kinds.ts';
import type { Condition } from '../../store/resource.ts';
import { randomId } from '../../store/uuid.ts';

/** Desired states that their schemas accept, for tests that care for a field or two. */
export function projectState(overrides: Partial<DesiredOf<'project'>> = {}): DesiredOf<'project'> {
  return kinds.project.desired.parse({
    name: `project-${randomId()}`,
    owner_id: randomId(),
    default_environment_id: randomId(),
    ...overrides,
  });
}

export function environmentState(overrides: Partial<DesiredOf<'environment'>> = {}): DesiredOf<'environment'> {
  return kinds.environment.desired.parse({ project_id: randomId(), name: 'production', ...overrides });
}

export function userState(overrides: Partial<DesiredOf<'user'>> = {}): DesiredOf<'user'> {
  return kinds.user.desired.parse({ email: `${randomId()}@example.org`, role: 'user', ...overrides });
}

export function applicationState(overrides: Partial<DesiredOf<'application'>> = {}): DesiredOf<'application'> {
  return kinds.application.desired.parse({
    project_id: randomId(),
    environment_id: randomId(),
    server_id: randomId(),
    name: `application-${randomId()}`,
    internal_id: 'web-0a1b2c',
    source: { type: 'image', image_url: 'example/web:1' },
    config: {},
    ...overrides,
  });
}

/** An observed state with one condition. */
export function projectObserved(
  phase: ObservedOf<'project'>['phase'],
  generation = 1,
): ObservedOf<'project'> & { observedGeneration: number; conditions: Condition[] } {
  const ready: Condition = {
    type: 'Ready',
    status: 'true',
    reason: 'Ready',
    message: '',
    observedGeneration: generation,
    changedAt: '2030-01-01T00:00:00.000Z',
  };
  return { phase, observedGeneration: generation, conditions: [ready] };
}
