import type { TerminalParams } from '../../agent-protocol/messages.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { AuditedObject } from '../../store/audit/record.ts';
import { mention } from '../../store/audit/mention.ts';
import type { ResourceKind } from '../resources/resources.ts';
import { permissionOf } from '../rights/permissions.ts';
import type { Permission } from '../rights/permissions.ts';
import type { TerminalPlace } from '../rights/terminal-sessions.ts';

/** A terminal at its place. */
interface Placed {
  /** The object of which it is a terminal; `undefined` if that is gone. */
  it: ReadonlyResource<ResourceKind> | undefined;
  /** Needed as long as it is open: the right to make it. */
  permission: Permission;
  /** What the audit log names. */
  about: AuditedObject[];
  params: TerminalParams;
  /** What the first frame tells of the place. */
  shown: Readonly<Record<string, string>>;
}

type In = TerminalPlace['in'];

/** What follows from the place of a terminal: a row for each. */
const rows: { [I in In]: (view: TenantView, place: Extract<TerminalPlace, { in: I }>) => Placed } = {
  instance: (view, { application_id, instance_id, command, shell, cols, rows: lines }) => {
    const it = view.get('application', application_id);
    return {
      it,
      permission: permissionOf('POST', '/applications/:id/terminal'),
      about: [...(it === undefined ? [] : [mention(it)]), { kind: 'assignment', id: instance_id }],
      params: {
        kind: 'exec',
        assignment: instance_id,
        ...(command !== undefined && { command }),
        ...(shell !== undefined && { shell }),
        cols,
        rows: lines,
      },
      shown: { instance_id },
    };
  },
  server: (view, { server_id, shell, cols, rows: lines }) => {
    const it = view.get('server', server_id);
    return {
      it,
      permission: permissionOf('POST', '/servers/:id/terminal'),
      about: it === undefined ? [] : [mention(it)],
      params: { kind: 'shell', ...(shell !== undefined && { shell }), cols, rows: lines },
      shown: { server_id },
    };
  },
};

export function placed(view: TenantView, place: TerminalPlace): Placed {
  return place.in === 'server' ? rows.server(view, place) : rows.instance(view, place);
}
