import { auditWrite } from '../../store/audit/record.ts';
import type { AuditedObject, AuditRecord } from '../../store/audit/record.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { Unit } from '../../store/repo.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { openTenantGuard } from '../../store/tenants.ts';
import { notFound } from '../api-error.ts';
import { keyOf } from '../auth/principal.ts';
import type { Principal } from '../auth/principal.ts';
import type { Column } from '../permissions.ts';
import type { ApiDependencies, RequestInfo } from '../context.ts';
import { CountingWindow } from './counting-window.ts';

/** What a record says of the request that it is of. */
export interface Asked {
  tenant: string;
  view: TenantView;
  /** Name of its row in the table of permissions. */
  route: string;
  request: RequestInfo;
  caller: Principal | undefined;
  /** As what the caller was let in; absent if nobody asked for it. */
  role?: Column;
  projectId?: string;
}

/** Writes the audit log: names of who, what and which fields, never values. Disposing writes down what it counted. */
export interface AuditLog extends AsyncDisposable {
  /**
   * Adds the record of what the unit does to the unit itself. Only what strangers can make happen, such as a code that is
   * sent, is counted like what they are refused, once it is `committed`. `undefined`: the unit does nothing.
   */
  change(asked: Asked, unit: Unit): { committed(): Promise<void> } | undefined;
  /** Records that secrets of these objects are given out; they must not be before. @throws what the store throws */
  read(asked: Asked, objects: readonly AuditedObject[]): Promise<void>;
  /** Records that it was not allowed, or that a login failed. Never fails the answer, which gives nothing away. */
  deny(asked: Asked, result: 'refused' | 'failed', objects: readonly AuditedObject[]): Promise<void>;
}

type Dependencies = Pick<ApiDependencies, 'store' | 'mirror' | 'clock' | 'random' | 'log'>;

export function createAuditLog({ store, mirror, clock, random, log }: Dependencies): AuditLog {
  const recordOf = (asked: Asked, result: AuditRecord['result'], objects: AuditedObject[]): AuditRecord => {
    const { caller, request, role } = asked;
    const project_id = asked.projectId;
    const key_id = caller && keyOf(caller)?.meta.id;
    return {
      v: 1,
      at: clock.now().toISOString(),
      route: asked.route,
      result,
      tenant: asked.tenant,
      ...(caller && { user: { id: caller.user.meta.id, email: caller.user.desired.email } }),
      ...(key_id !== undefined && { key_id }),
      ...(caller?.by.type === 'session' && { session_id: caller.by.session.meta.id }),
      source: request.address,
      request_id: request.id,
      ...(project_id !== undefined && { project_id }),
      ...(role !== undefined && { role }),
      objects,
    };
  };

  const write = async (record: AuditRecord): Promise<void> => {
    const open = openTenantGuard(mirror, record.tenant);
    const done = open && (await store.txn({ if: [open], then: [auditWrite(record, random.id())] }));
    if (done?.committed !== true) throw notFound('Tenant');
  };

  const tryToWrite = async (record: AuditRecord): Promise<void> => {
    try {
      await write(record);
    } catch (error) {
      log.warn({ err: error, request: record.request_id, route: record.route }, 'Record is not in the audit log');
    }
  };
  const counted = new CountingWindow(clock, tryToWrite);

  return {
    change(asked, unit) {
      const { objects, isEmpty } = unit.changes();
      if (isEmpty) return undefined;
      const touched = objects.map(({ it, action, fields }) => ({ ...mention(it), action, fields }));
      const changed = objects.map(({ it }) => it);
      const record = recordOf({ ...asked, ...projectOf(asked, changed) }, 'ok', touched);
      const newcomer = asked.caller === undefined ? newcomerIn(changed, asked.view) : record;
      if (newcomer === undefined) return { committed: () => counted.add(record) };
      unit.write(auditWrite({ ...record, ...newcomer }, random.id()));
      return { committed: async () => undefined };
    },
    read: (asked, objects) =>
      write(
        recordOf(
          asked,
          'ok',
          objects.map((it) => ({ ...it, action: 'read' as const })),
        ),
      ),
    deny: (asked, result, objects) => counted.add(recordOf(asked, result, [...objects])),
    [Symbol.asyncDispose]: () => counted[Symbol.asyncDispose](),
  };
}

/** What a record calls an object by; people by their address, of which somebody said that it is theirs. */
export function mention({ meta: { kind, id }, desired }: ReadonlyResource): AuditedObject {
  const name = 'name' in desired ? desired.name : kind === 'user' && 'email' in desired ? desired.email : undefined;
  return { kind, id, ...(typeof name === 'string' && { name }) };
}

/** The project of what is changed, where the route itself is of none. */
function projectOf({ projectId }: Asked, changed: readonly ReadonlyResource[]): { projectId?: string } {
  if (projectId !== undefined) return {};
  for (const { meta, desired } of changed) {
    if (meta.kind === 'project') return { projectId: meta.id };
    if ('project_id' in desired && typeof desired.project_id === 'string') return { projectId: desired.project_id };
  }
  return {};
}

/** Who has just logged in: the one whose session begins. */
function newcomerIn(
  changed: readonly ReadonlyResource[],
  view: TenantView,
): Pick<AuditRecord, 'user' | 'session_id'> | undefined {
  for (const { meta, desired } of changed) {
    if (meta.kind !== 'session' || !('user_id' in desired)) continue;
    const { user_id } = desired;
    const isTheirs = (it: ReadonlyResource): it is ReadonlyResource<'user'> => it.meta.id === user_id;
    const user = view.get('user', user_id) ?? changed.find(isTheirs);
    return { session_id: meta.id, ...(user && { user: { id: user.meta.id, email: user.desired.email } }) };
  }
  return undefined;
}
