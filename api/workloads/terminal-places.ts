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
  instance: (view, place) =>
    inContainer(view.get('application', place.application_id), '/applications/:id/terminal', place),
  database: (view, place) => inContainer(view.get('database', place.database_id), '/databases/:id/terminal', place),
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

/** A terminal in the container of an instance of `it`. */
function inContainer(
  it: ReadonlyResource<ResourceKind> | undefined,
  path: '/applications/:id/terminal' | '/databases/:id/terminal',
  { instance_id, command, shell, cols, rows: lines }: Extract<TerminalPlace, { instance_id: string }>,
): Placed {
  return {
    it,
    permission: permissionOf('POST', path),
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
}

export function placed(view: TenantView, place: TerminalPlace): Placed {
  switch (place.in) {
    case 'server':
      return rows.server(view, place);
    case 'database':
      return rows.database(view, place);
    case 'instance':
      return rows.instance(view, place);
  }
}
