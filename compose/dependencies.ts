import type { PlainComposedService } from '../store/kinds/composed-service.ts';

type Dependent = Pick<PlainComposedService, 'name' | 'depends_on'>;

/** A circle of dependencies, in words that follow `services`; `undefined` if there is none. */
export function dependencyFault(services: readonly Dependent[]): string | undefined {
  const byName = new Map(services.map((it) => [it.name, it]));
  const done = new Set<string>();
  for (const { name } of services) {
    const circle = circleFrom(name, byName, done, []);
    if (circle !== undefined) return `must not depend on each other in a circle: ${circle.join(' → ')}`;
  }
  return undefined;
}

function circleFrom(
  name: string,
  byName: ReadonlyMap<string, Dependent>,
  done: Set<string>,
  path: readonly string[],
): readonly string[] | undefined {
  if (path.includes(name)) return [...path.slice(path.indexOf(name)), name];
  if (done.has(name)) return undefined;
  for (const { service } of byName.get(name)?.depends_on ?? []) {
    const circle = circleFrom(service, byName, done, [...path, name]);
    if (circle !== undefined) return circle;
  }
  done.add(name);
  return undefined;
}
