import { aborted } from '../../../controllers/runtime/aborted.ts';
import type { Controller } from '../../../controllers/runtime/controller.ts';
import type { Term } from '../../../controllers/runtime/leader.ts';
import type { Background, BackgroundDeps } from '../../../controllers/runtime/manager.ts';
import type { DesiredOf } from '../../../store/kinds/kinds.ts';
import type { Unit } from '../../../store/unit-of-work.ts';
import { commit } from '../../../store/unit.ts';
import { id, openRig } from '../runtime/rig.ts';
import type { Rig, RigOptions } from '../runtime/rig.ts';
import { desiredState } from '../../harness/states.ts';

/** A controller of projects; without `reconcile` it finds every project settled. */
export function projects(reconcile: Controller<'project'>['reconcile'] = async () => settled): Controller<'project'> {
  return { name: 'project', kind: 'project', reads: [], children: [], wakes: [], reconcile };
}

export const settled = {
  observed: { phase: 'active' },
  conditions: [{ type: 'Ready', status: 'true', reason: 'Active', message: 'Ready for use' }],
  next: { settled: true },
} as const satisfies Awaited<ReturnType<Controller<'project'>['reconcile']>>;

/** A rig that leads, with what its background work may use. */
export async function openTerm(options: RigOptions = {}): Promise<{ rig: Rig; term: Term; deps: BackgroundDeps }> {
  const begun = Promise.withResolvers<{ term: Term; deps: BackgroundDeps }>();
  const background: Background = {
    name: 'probe',
    async run(term, deps) {
      begun.resolve({ term, deps });
      await aborted(term.signal);
    },
  };
  const rig = await openRig({ ...options, background: [background] });
  return { rig, ...(await begun.promise) };
}

/** Commits what `make` adds to a unit, and lets follow what follows. */
export async function write(rig: Rig, make: (unit: Unit) => void): Promise<void> {
  const unit = rig.repo.begin();
  make(unit);
  await commit(unit);
  await rig.rest();
}

/** The same for each number below `count`, several in a transaction. */
export async function writeMany(rig: Rig, count: number, make: (unit: Unit, n: number) => void): Promise<void> {
  for (let n = 0; n < count; n += 10) {
    const unit = rig.repo.begin();
    for (let m = n; m < Math.min(count, n + 10); m++) make(unit, m);
    await commit(unit);
  }
  await rig.rest();
}

export function aUser(unit: Unit, name: string, role: DesiredOf<'user'>['role'] = 'user'): void {
  unit.create('user', id(name), desiredState('user', { ...person, role, email: `${name}@example.test` }));
}

const person = {
  first_name: '',
  last_name: '',
  must_reset_password: false,
  two_factor_enabled: false,
  disabled: false,
};

/** The object with some of its members replaced; the others go on being its own. */
export function overriding<T extends object>(target: T, members: Partial<T>): T {
  return new Proxy(target, {
    get(_, name) {
      if (name in members) return Reflect.get(members, name);
      const own: unknown = Reflect.get(target, name, target);
      return typeof own === 'function' ? own.bind(target) : own;
    },
  });
}

/** Ends when the signal aborts, by throwing its reason. */
export function hang(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const end = (): void => reject(signal.reason as Error); // signals are aborted with errors here
    if (signal.aborted) end();
    else signal.addEventListener('abort', end, { once: true });
  });
}
