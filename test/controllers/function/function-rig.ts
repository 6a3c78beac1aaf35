import { randomUUID } from 'node:crypto';
import { functionController } from '../../../controllers/function/reconcile.ts';
import type { AnyController } from '../../../controllers/runtime/graph.ts';
import type { DesiredOf, ObservedOf } from '../../../store/kinds/kinds.ts';
import { kinds } from '../../../store/kinds/kinds.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { commit } from '../../../store/unit.ts';
import { aServer } from '../../harness/objects.ts';
import { desiredState } from '../../harness/states.ts';
import { openRig, tenant } from '../runtime/rig.ts';
import type { Rig } from '../runtime/rig.ts';

/** A function on a server, under its controller, which a test plays the agent and the users of. */
export interface FunctionRig extends AsyncDisposable {
  readonly rig: Rig;
  /** Adds a version, which is being built, and lets it be the one that is to serve. */
  deploy(): Promise<string>;
  /** Writes what became of a build. */
  built(version: string, end?: Partial<ObservedOf<'function_version'>>): Promise<void>;
  change(wanted: Partial<DesiredOf<'function'>>): Promise<void>;
  /** Writes what the server reports of what it has of the function. */
  report(more: Partial<ObservedOf<'assignment'>>): Promise<void>;
  /** Writes the phase of its server. */
  server(phase: ObservedOf<'server'>['phase']): Promise<void>;
  pass(ms: number): Promise<void>;
  /** Removes what its server has ended. */
  sweep(): Promise<void>;
  fn(): Promise<ReadonlyResource<'function'>>;
  version(id: string): Promise<ReadonlyResource<'function_version'>>;
  /** What its server is to serve. */
  served(): ReadonlyResource<'assignment'> | undefined;
  /** The calls by its schedule that its server is to make. */
  calls(): ReadonlyResource<'assignment'>[];
  /** The reason and the message of its condition Ready. */
  ready(): Promise<{ reason: string | undefined; message: string | undefined }>;
}

export const digestOf = (version: string): string => `sha256:${version.replaceAll('-', '').repeat(2)}`;

/** @param more settings of the function, which is stopped and was never deployed */
export async function openFunctionRig(
  more: Partial<DesiredOf<'function'>> = {},
  others: readonly AnyController[] = [],
): Promise<FunctionRig> {
  const rig = await openRig({ controllers: [functionController, ...others] });
  const [server, of] = [aServer(), randomUUID()];
  const unit = rig.repo.begin();
  unit.create('server', server.meta.id, server.desired);
  unit.create('function', of, desiredState('function', { server_id: server.meta.id, run: 'stopped', ...more }));
  await commit(unit);
  await rig.rest();
  let count = 0;
  const all = () => rig.mirror.tenant(tenant).by('assignment', 'workload', of);
  const it: FunctionRig = {
    rig,
    fn: async () => (await rig.repo.get('function', of))!,
    version: async (id) => (await rig.repo.get('function_version', id))!,
    served: () => all().find(({ desired }) => desired.spec.type === 'function'),
    calls: () => all().filter(({ desired }) => desired.spec.type === 'call'),
    async deploy() {
      const id = randomUUID();
      const before = await it.fn();
      const wanted = rig.repo.begin();
      const fields = { function_id: of, server_id: server.meta.id, number: (count += 1) };
      wanted.create('function_version', id, desiredState('function_version', fields));
      wanted.change(before, (draft) => {
        Object.assign(draft, { version_id: id, run: 'running', attempt: draft.attempt + 1 });
      });
      await commit(wanted);
      await rig.rest();
      return id;
    },
    async built(id, end) {
      const one = await it.version(id);
      const good = { phase: 'ready' as const, image: `hello:${id}`, image_digest: digestOf(id) };
      const observed = { ...(end ?? good), phase: end?.phase ?? good.phase };
      await rig.repo.observe(one, { ...observed, observedGeneration: one.meta.generation, conditions: [] }, []);
      await it.pass(10_000);
    },
    async change(wanted) {
      const change = rig.repo.begin();
      change.change(await it.fn(), (draft) => void Object.assign(draft, wanted));
      await commit(change);
      await it.pass(10_000);
    },
    async report(told) {
      const one = (await rig.repo.get('assignment', it.served()!.meta.id))!;
      const said = kinds.assignment.observed.parse({ phase: 'running', ...told });
      await rig.repo.observe(one, { ...said, observedGeneration: one.meta.generation, conditions: [] }, []);
      await it.pass(10_000);
    },
    async server(phase) {
      const one = (await rig.repo.get('server', server.meta.id))!;
      await rig.repo.observe(one, { phase, observedGeneration: one.meta.generation, conditions: [] }, []);
      await it.pass(10_000);
    },
    async pass(ms) {
      await rig.clock.advance(ms); // runs of an object are spaced
      await rig.rest();
      await it.sweep();
    },
    async sweep() {
      for (const one of all().filter(({ meta }) => meta.deletionRequestedAt !== undefined)) {
        const end = rig.repo.begin();
        end.release((await rig.repo.get('assignment', one.meta.id))!, 'agent');
        await commit(end);
      }
      await rig.rest();
    },
    async ready() {
      const found = (await it.fn()).observed?.conditions.find(({ type }) => type === 'Ready');
      return { reason: found?.reason, message: found?.message };
    },
    [Symbol.asyncDispose]: () => rig[Symbol.asyncDispose](),
  };
  return it;
}
