import { touchedBy } from '../../store/audit/mention.ts';
import { auditWrite } from '../../store/audit/record.ts';
import type { AuditedObject, AuditRecord } from '../../store/audit/record.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { writeInTenant } from '../ground/tenant-writes.ts';
import { keyOf } from '../auth/principal.ts';
import type { Principal } from '../auth/principal.ts';
import type { Column } from '../rights/permissions.ts';
import type { ApiDependencies, RequestInfo } from '../ground/dependencies.ts';
import { CountingWindow } from './counting-window.ts';

/** What an audit record contains about its request. */
export interface Asked {
  tenant: string;
  view: TenantView;
  /** Name of its route in the table of permissions. */
  route: string;
  request: RequestInfo;
  caller: Principal | undefined;
  /** The column of the permission table by which the caller was let in; absent if the route asks for no role. */
  role?: Column;
  projectId?: string;
}

/**
 * Writes the audit log: who did what, and the names of fields, never their values. Disposing writes the pending counts.
 */
export interface AuditLog extends AsyncDisposable {
  /**
   * Adds the audit record of the unit's changes to the unit itself. Returns `undefined` if the unit changes nothing. A
   * change that a stranger can cause, such as sending a login code, is not recorded in the unit: `committed` counts it,
   * in the same way as refusals.
   */
  change(asked: Asked, unit: Unit): { committed(): Promise<void> } | undefined;
  /**
   * Records that secrets of these objects are read; await it before sending them. @throws any error of the store;
   * ApiError
   */
  read(asked: Asked, objects: readonly AuditedObject[]): Promise<void>;
  /** Records that a terminal was made; await it before its id is sent. @throws any error of the store; ApiError */
  made(asked: Asked, objects: readonly AuditedObject[]): Promise<void>;
  /**
   * Records that a terminal or a tunnel was opened; await it before anything runs. @throws any error of the store; ApiError
   */
  opened(asked: Asked, objects: readonly AuditedObject[]): Promise<void>;
  /** Records that a terminal or a tunnel was closed. Never throws: an error of the store is only logged. */
  closed(
    asked: Asked,
    objects: readonly AuditedObject[],
    what: Omit<NonNullable<AuditRecord['terminal']>, 'event'>,
  ): Promise<void>;
  /**
   * Records a refused request or a failed login. Never throws: the answer reveals nothing, so an error of the store is
   * only logged.
   */
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

  const write = (record: AuditRecord): Promise<void> =>
    writeInTenant({ store, mirror }, record.tenant, [auditWrite(record, random.id())]);

  const tryToWrite = async (record: AuditRecord): Promise<void> => {
    try {
      await write(record);
    } catch (error) {
      log.warn(
        { err: error, request: record.request_id, route: record.route },
        'Cannot store an audit record: the request was answered, and is missing in the audit log',
      );
    }
  };
  const counted = new CountingWindow(clock, tryToWrite);

  return {
    change(asked, unit) {
      const { objects, isEmpty } = unit.changes();
      if (isEmpty) return undefined;
      const touched = touchedBy(objects);
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
    made: (asked, objects) => write(recordOf(asked, 'ok', [...objects])),
    opened: (asked, objects) => write({ ...recordOf(asked, 'ok', [...objects]), terminal: { event: 'opened' } }),
    closed: (asked, objects, what) =>
      tryToWrite({ ...recordOf(asked, 'ok', [...objects]), terminal: { event: 'closed', ...what } }),
    deny: (asked, result, objects) => counted.add(recordOf(asked, result, [...objects])),
    [Symbol.asyncDispose]: () => counted[Symbol.asyncDispose](),
  };
}

/** The project of the changed objects, if the route itself belongs to no project. */
function projectOf({ projectId }: Asked, changed: readonly ReadonlyResource[]): { projectId?: string } {
  if (projectId !== undefined) return {};
  for (const { meta, desired } of changed) {
    if (meta.kind === 'project') return { projectId: meta.id };
    if ('project_id' in desired && typeof desired.project_id === 'string') return { projectId: desired.project_id };
  }
  return {};
}

/** The user who has just logged in: the one whose session is created. */
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
