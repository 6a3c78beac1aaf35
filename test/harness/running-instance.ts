import { randomUUID } from 'node:crypto';
import { keys } from '../../store/keys.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import type { Repository } from '../../store/repo.ts';
import type { Store } from '../../store/store.ts';
import { commit } from '../../store/unit.ts';
import { serviceSpec } from './wire-items.ts';

/**
 * Makes an instance of an application, or of a workload of another kind, as its controller would, with what its agent
 * reported of it. Answers its id.
 */
export async function instanceOf(
  repo: Repository,
  place: { application: string; project: string; environment: string; server: string },
  {
    slot = 0,
    kind = 'application',
    ...reported
  }: { slot?: number; kind?: 'application' | 'database' } & Partial<ObservedOf<'assignment'>> = {},
): Promise<string> {
  const id = randomUUID();
  const unit = repo.begin();
  const it = unit.create('assignment', id, {
    server_id: place.server,
    project_id: place.project,
    environment_id: place.environment,
    workload_kind: kind,
    workload_id: place.application,
    workload_name: 'web',
    version: randomUUID(),
    service: 'main',
    spec_hash: 'h',
    run: 'running',
    spec: serviceSpec({ slot }),
  });
  await commit(unit);
  const seen = { phase: 'running' as const, ready: true, stable: true, restarts: 0, crash_loop: false, ...reported };
  await repo.observe(it, { ...seen, observedGeneration: it.meta.generation, conditions: [] }, []);
  return id;
}

/** The agent of the server is connected. */
export async function agentIsThere(
  store: Store,
  { tenant = 'default', server }: { tenant?: string; server: string },
  agent: { capabilities?: string[] } = {},
): Promise<void> {
  const value = JSON.stringify({ replica: 'r', session: randomUUID(), machineId: 'm', ...agent });
  await store.txn({ if: [], then: [{ put: keys.agent(tenant, server), value }] });
}
