import type { KeyScope } from '../../store/kinds/identity.ts';

/**
 * What a column of a row allows: `+` everything, `-` nothing (403), `f` only visible objects, `m` masked fields, `s`
 * the caller's own objects, `P` every client, `r` everything except giving or changing a role at or above the caller's
 * own.
 */
export type Grant = '+' | '-' | 'f' | 'm' | 's' | 'P' | 'r';

/** The columns of a row, in order; `other` is a user of the tenant without a role in the project. */
export const columns = ['superadmin', 'admin', 'owner', 'project_admin', 'member', 'viewer', 'other'] as const;
export type Column = (typeof columns)[number];

export interface Permission {
  grants: Readonly<Record<Column, Grant>>;
  /** Lowest scope that a service key needs; `session`: no service key is let in, whatever its scopes. */
  scope: KeyScope | 'session';
  /** A service key without scope `write` gets a masked answer. */
  isMasked: boolean;
  /**
   * The route is about the account, but a key that is narrowed to a project may use it: the answer is limited to that
   * project.
   */
  isOfNarrowed: boolean;
  /** A setting of the tenant may take it from admins: `server_terminals`. */
  isSwitched: boolean;
  /** A user who must choose a new password may use it. */
  isOpenInReset: boolean;
}

/** Routes for a service key with scope `deploy`: they change what runs and nothing else. */
const deploy = 'deploy';
/** Routes that change accounts, keys, servers, members or whole projects. */
const admin = 'admin';
/** Routes that change the credentials of an account: a stolen key must not be enough to take over the account. */
const session = 'session';

type Mark = 'masked' | 'narrowed' | 'reset' | 'switched';
type Row = readonly [grants: string, scope?: Permission['scope'], marks?: readonly Mark[]];

/**
 * Every route of the API, served or not yet, and who may use it. A mounted route without a row stops the start.
 * Columns: superadmin, admin; project owner, admin, member, viewer; other user of the tenant.
 */
const rows = {
  'GET /auth/setup-status': ['P P P P P P P'],
  'POST /auth/register': ['P P P P P P P'],
  'POST /auth/login': ['P P P P P P P'],
  'POST /auth/logout': ['P P P P P P P'],
  'POST /auth/send-code': ['P P P P P P P'],
  'POST /auth/verify-code': ['P P P P P P P'],
  'GET /auth/me': ['s s s s s s s', 'read', ['reset']],
  'PUT /auth/me': ['s s s s s s s', admin],
  'PUT /auth/me/password': ['s s s s s s s', session, ['reset']],
  'POST /auth/me/set-initial-password': ['s s s s s s s', session],
  'GET /auth/me/two-factor': ['s s s s s s s'],
  'POST /auth/me/two-factor': ['s s s s s s s', session],
  'POST /auth/me/two-factor/confirm': ['s s s s s s s', session],
  'DELETE /auth/me/two-factor': ['s s s s s s s', session],
  'POST /auth/me/two-factor/recovery-codes': ['s s s s s s s', session],
  'GET /auth/sessions': ['s s s s s s s'],
  'DELETE /auth/sessions': ['s s s s s s s', session],
  'DELETE /auth/sessions/:id': ['s s s s s s s', session],
  'POST /auth/stream-tickets': ['s s s s s s s', 'read', ['narrowed']],
  'GET /users': ['+ + - - - - -'],
  'GET /users/invites': ['+ + - - - - -'],
  'POST /users/invites': ['+ r - - - - -', admin],
  'DELETE /users/invites/:inviteId': ['+ r - - - - -', admin],
  'GET /users/:id': ['+ + - - - - -'],
  'PUT /users/:id': ['+ r - - - - -', admin],
  'DELETE /users/:id': ['+ r - - - - -', admin],
  'GET /limits': ['+ + s s s s s'],
  'GET /settings': ['+ + + + + + +'],
  'PUT /settings': ['+ - - - - - -', admin],
  'GET /system/diagnose': ['+ - - - - - -', admin],
  'GET /users/:id/service-keys': ['+ + - - - - -'],
  'GET /settings/service-keys': ['s s s s s s s', 'read', ['narrowed']],
  'POST /settings/service-keys': ['s s s s s s s', admin, ['narrowed']],
  'DELETE /settings/service-keys/:id': ['+ s s s s s s', admin, ['narrowed']],
  'GET /settings/ssh-keys': ['+ + - - - - -'],
  'POST /settings/ssh-keys': ['+ + - - - - -', admin],
  'GET /settings/ssh-keys/:id': ['+ + - - - - -'],
  'PUT /settings/ssh-keys/:id': ['+ + - - - - -', admin],
  'DELETE /settings/ssh-keys/:id': ['+ + - - - - -', admin],

  'GET /settings/git-credentials': ['+ + m m m m f'],
  'POST /settings/git-credentials': ['+ + - - - - -', admin],
  'GET /settings/git-credentials/:id': ['+ + m m m m -'],
  'PUT /settings/git-credentials/:id': ['+ + - - - - -', admin],
  'DELETE /settings/git-credentials/:id': ['+ + - - - - -', admin],
  'GET /settings/registries': ['+ + m m m m f'],
  'POST /settings/registries': ['+ + - - - - -', admin],
  'GET /settings/registries/:id': ['+ + m m m m -'],
  'PUT /settings/registries/:id': ['+ + - - - - -', admin],
  'DELETE /settings/registries/:id': ['+ + - - - - -', admin],
  'POST /settings/registries/:id/test': ['+ + - - - - -', admin],

  'GET /projects': ['+ + f f f f f'],
  'POST /projects': ['+ + + + + + +'],
  'GET /projects/:id': ['+ + + + + + -'],
  'PUT /projects/:id': ['+ + + + - - -'],
  'DELETE /projects/:id': ['+ + + - - - -', admin],
  'GET /projects/:id/icon': ['+ + + + + + -'],
  'POST /projects/:id/icon': ['+ + + + - - -'],
  'DELETE /projects/:id/icon': ['+ + + + - - -'],
  'GET /projects/:id/members': ['+ + + + + + -'],
  'POST /projects/:id/members': ['r r r r - - -', admin],
  'PUT /projects/:id/members/:memberId': ['r r r r - - -', admin],
  'DELETE /projects/:id/members/:memberId': ['r r r r s s -', admin],
  'POST /projects/:id/transfer': ['+ + + - - - -', admin],
  'GET /projects/:id/invites': ['+ + + + - - -'],
  'POST /projects/:id/invites': ['r r r r - - -', admin],
  'DELETE /projects/:id/invites/:inviteId': ['+ + + + - - -', admin],
  'GET /invites/:token': ['s s s s s s s'],
  'POST /invites/:token/accept': ['s s s s s s s', admin],
  'GET /me/invites': ['s s s s s s s'],

  'GET /projects/:projectId/environments': ['+ + + + + + -'],
  'POST /projects/:projectId/environments': ['+ + + + - - -'],
  'GET /projects/:projectId/environments/:envId': ['+ + + + + + -'],
  'PUT /projects/:projectId/environments/:envId': ['+ + + + - - -'],
  'DELETE /projects/:projectId/environments/:envId': ['+ + + + - - -'],
  'POST /projects/:projectId/environments/:envId/set-default': ['+ + + + - - -'],
  'POST /projects/:projectId/environments/:envId/clone': ['+ + + + - - -'],

  'GET /servers': ['+ + m m m m f'],
  'POST /servers': ['+ + - - - - -', admin],
  'GET /servers/:id': ['+ + m m m m -'],
  'PUT /servers/:id': ['+ + - - - - -', admin],
  'DELETE /servers/:id': ['+ + - - - - -', admin],
  'POST /servers/:id/join-token': ['+ + - - - - -', admin],
  'POST /servers/:id/confirm-removals': ['+ + - - - - -', admin],
  'POST /servers/:id/validate': ['+ + - - - - -', admin],
  'POST /servers/:id/provision': ['+ + - - - - -', admin],
  'POST /servers/:id/trust-host-key': ['+ + - - - - -', admin],
  'POST /servers/:id/ping': ['+ + - - - - -', admin],
  'GET /servers/:id/agent-status': ['+ + + + + + -'],
  'POST /servers/:id/update-agent': ['+ + - - - - -', admin],
  'GET /servers/:id/tunnel-status': ['+ + - - - - -'],
  'GET /servers/tunnel-status/all': ['+ + - - - - -'],
  'GET /servers/:id/diagnose': ['+ + - - - - -', admin],
  'POST /servers/:id/heal': ['+ + - - - - -', admin],
  'POST /servers/:id/adopt': ['+ + - - - - -', admin],
  'GET /servers/:id/metrics': ['+ + m m m m -'],
  'GET /servers/:id/logs/storage': ['+ + - - - - -'],
  'GET /servers/:id/logs': ['+ + - - - - -'],
  'GET /servers/:id/events': ['+ + - - - - -'],
  'POST /servers/:id/terminal': ['+ + - - - - -', admin, ['switched']],

  'GET /applications': ['+ + f f f f f'],
  'GET /applications/check-name': ['+ + + + + - -'],
  'POST /applications': ['+ + + + + - -'],
  'GET /applications/:id': ['+ + + + + + -'],
  'PUT /applications/:id': ['+ + + + + - -'],
  'DELETE /applications/:id': ['+ + + + + - -'],
  'POST /applications/:id/deploy': ['+ + + + + - -', deploy],
  'POST /applications/:id/start': ['+ + + + + - -', deploy],
  'POST /applications/:id/stop': ['+ + + + + - -', deploy],
  'POST /applications/:id/restart': ['+ + + + + - -', deploy],
  'POST /applications/:id/rollback': ['+ + + + + - -', deploy],
  'GET /applications/:id/instances': ['+ + + + + + -'],
  'POST /applications/:id/scale': ['+ + + + + - -', deploy],
  'PUT /applications/:id/capabilities': ['+ + - - - - -', admin],
  'GET /applications/:id/dependencies': ['+ + + + + + -'],
  'GET /applications/:id/env': ['+ + + + + m -', 'read', ['masked']],
  'PUT /applications/:id/env': ['+ + + + + - -'],
  'PATCH /applications/:id/env': ['+ + + + + - -'],
  'GET /applications/:id/compose': ['+ + + + + - -', 'write'],
  'GET /applications/:id/runtime-logs': ['+ + + + + + -'],
  'GET /applications/:id/build-logs': ['+ + + + + + -'],
  'GET /applications/:id/metrics': ['+ + + + + + -'],
  'GET /applications/:id/traffic': ['+ + + + + + -'],
  'GET /applications/:id/events': ['+ + + + + + -'],
  'POST /applications/:id/terminal': ['+ + + + + - -'],
  'GET /applications/:id/volume-backups': ['+ + + + + + -'],
  'POST /applications/:id/volume-backups': ['+ + + + + - -'],
  'GET /applications/:appId/deployments': ['+ + + + + + -'],
  'POST /applications/:id/dockerfile': ['+ + + + + - -', deploy],
  'POST /applications/:appId/deployments/sync': ['+ + + + + - -', deploy],

  'POST /applications/:id/run': ['+ + + + + - -'],
  'GET /applications/:id/runs': ['+ + + + + + -'],
  'GET /runs/:id': ['+ + + + + + -'],
  'GET /runs/:id/logs': ['+ + + + + + -'],
  'GET /runs/:id/events': ['+ + + + + + -'],
  'POST /runs/:id/cancel': ['+ + + + + - -'],

  'GET /deployments/:id': ['+ + + + + + -'],
  'GET /deployments/:id/logs': ['+ + + + + + -'],
  'GET /deployments/:id/runtime-logs': ['+ + + + + + -'],
  'GET /deployments/:id/build-logs': ['+ + + + + + -'],
  'GET /deployments/:id/events': ['+ + + + + + -'],
  'POST /deployments/:id/cancel': ['+ + + + + - -', deploy],

  'GET /previews': ['+ + f f f f f'],
  'POST /previews': ['+ + + + - - -'],
  'GET /previews/:id': ['+ + + + + + -'],
  'PUT /previews/:id': ['+ + + + - - -'],
  'DELETE /previews/:id': ['+ + + + - - -'],
  'POST /previews/:id/approve': ['+ + + + - - -', admin],
  'GET /previews/:id/events': ['+ + + + + + -'],

  'GET /webhooks/git': ['+ + f f f f f'],
  'POST /webhooks/git': ['+ + + + - - -'],
  'GET /webhooks/git/:id': ['+ + + + + + -'],
  'PUT /webhooks/git/:id': ['+ + + + - - -'],
  'DELETE /webhooks/git/:id': ['+ + + + - - -'],
  // called by git hosts: the signature of the call decides
  'POST /webhooks/git/:id': ['P P P P P P P'],
  'GET /webhooks/git/:id/deliveries': ['+ + + + + + -'],
  'GET /webhooks/deliveries/:id': ['+ + + + + + -'],
  'POST /webhooks/deliveries/:id/replay': ['+ + + + + - -', deploy],

  'GET /databases': ['+ + f f f f f'],
  'POST /databases': ['+ + + + + - -'],
  'GET /databases/:id': ['+ + + + + + -'],
  'PUT /databases/:id': ['+ + + + + - -'],
  'DELETE /databases/:id': ['+ + + + - - -'],
  'POST /databases/:id/start': ['+ + + + + - -', deploy],
  'POST /databases/:id/stop': ['+ + + + + - -', deploy],
  'POST /databases/:id/restart': ['+ + + + + - -', deploy],
  'GET /databases/:id/credentials': ['+ + + + + - -', 'write'],
  'POST /databases/:id/rotate-password': ['+ + + + + - -'],
  'GET /databases/:id/storage': ['+ + + + + + -'],
  'GET /databases/:id/metrics': ['+ + + + + + -'],
  'GET /databases/:id/logs': ['+ + + + + + -'],
  'GET /databases/:id/dependencies': ['+ + + + + + -'],
  'POST /databases/:id/terminal': ['+ + + + + - -'],
  'GET /databases/:id/events': ['+ + + + + + -'],
  'GET /databases/:id/backups': ['+ + + + + + -'],
  'POST /databases/:id/backups': ['+ + + + + - -'],
  'GET /databases/:id/recovery-window': ['+ + + + + + -'],
  'POST /databases/:id/restore': ['+ + + + - - -'],
  'POST /databases/:id/pitr': ['+ + + + - - -'],
  'POST /databases/:id/pitr-clone': ['+ + + + - - -'],
  'POST /databases/:id/switch': ['+ + + + - - -'],
  'POST /databases/:id/import': ['+ + + + - - -'],
  'POST /databases/:id/restore-from-path': ['+ + - - - - -', admin],
  'GET /backups': ['+ + f f f f f'],
  'GET /backups/:id': ['+ + + + + + -'],
  'PUT /backups/:id': ['+ + + + - - -'],
  'DELETE /backups/:id': ['+ + + + - - -'],
  'POST /backups/:id/cancel': ['+ + + + + - -'],
  'POST /backups/:id/verify': ['+ + + + - - -'],
  'GET /backups/:id/events': ['+ + + + + + -'],
  'POST /backups/database/:id/restore': ['+ + + + - - -'],

  'GET /settings/backup-destinations': ['+ + m m - - -'],
  'POST /settings/backup-destinations': ['+ + - - - - -', admin],
  'GET /settings/backup-destinations/:id': ['+ + m m - - -'],
  'PUT /settings/backup-destinations/:id': ['+ + - - - - -', admin],
  'DELETE /settings/backup-destinations/:id': ['+ + - - - - -', admin],
  'POST /settings/backup-destinations/:id/import': ['+ + - - - - -', admin],
  'GET /backup-schedules': ['+ + f f f f f'],
  'POST /backup-schedules': ['+ + + + - - -'],
  'GET /backup-schedules/:id': ['+ + + + + + -'],
  'PUT /backup-schedules/:id': ['+ + + + - - -'],
  'DELETE /backup-schedules/:id': ['+ + + + - - -'],
  'POST /backup-schedules/:id/run': ['+ + + + + - -'],
  'GET /restores': ['+ + f f f f f'],
  'GET /restores/:id': ['+ + + + + + -'],
  'POST /restores/:id/cancel': ['+ + + + - - -'],
  'GET /restores/:id/events': ['+ + + + + + -'],
  'GET /backup-schedules/:id/events': ['+ + + + + + -'],
  'POST /backups/volume/:id/restore': ['+ + + + - - -'],
  'POST /backups/volume/:id/clone': ['+ + + + - - -'],

  'GET /volumes': ['+ + f f f f f'],
  'POST /volumes': ['+ + + + + - -'],
  'GET /volumes/:id': ['+ + + + + + -'],
  'PUT /volumes/:id': ['+ + + + + - -'],
  'DELETE /volumes/:id': ['+ + + + - - -'],
  'POST /volumes/:id/bind': ['+ + + + + - -'],
  'POST /volumes/:id/unbind': ['+ + + + + - -'],
  'GET /volumes/:id/events': ['+ + + + + + -'],
  'POST /volumes/:id/backup': ['+ + + + + - -'],
  'GET /volumes/:id/backups': ['+ + + + + + -'],

  'GET /functions': ['+ + f f f f f'],
  'POST /functions': ['+ + + + + - -'],
  'GET /functions/:id': ['+ + + + + m -', 'read', ['masked']],
  'PUT /functions/:id': ['+ + + + + - -'],
  'DELETE /functions/:id': ['+ + + + + - -'],
  'POST /functions/:id/deploy': ['+ + + + + - -', deploy],
  'POST /functions/:id/start': ['+ + + + + - -', deploy],
  'POST /functions/:id/stop': ['+ + + + + - -', deploy],
  'GET /functions/:id/executions': ['+ + + + + + -'],
  'GET /functions/:id/versions': ['+ + + + + + -'],
  'GET /functions/:id/versions/:versionId/logs': ['+ + + + + + -'],
  'POST /functions/:id/versions/:versionId/deploy': ['+ + + + + - -', deploy],
  'GET /functions/:id/dependencies': ['+ + + + + + -'],
  'GET /functions/:id/events': ['+ + + + + + -'],
  'GET /functions/:id/logs': ['+ + + + + + -'],
  'POST /functions/:id/invoke': ['+ + + + + - -'],

  'POST /compose/validate': ['+ + + + + + +', 'read'],

  'POST /apply': ['+ + + + - - -'],
  'GET /projects/:id/export': ['+ + + + + + -'],
  'GET /templates': ['+ + + + + + +'],
  'POST /templates': ['+ + + + + - -'],
  'GET /templates/:id': ['+ + + + + + +'],
  'PUT /templates/:id': ['+ + s s s s s'],
  'DELETE /templates/:id': ['+ + s s s s s'],
  'GET /templates/:id/export': ['+ + + + + + +'],
  'POST /templates/import': ['+ + + + + - -'],
  'POST /templates/validate': ['+ + + + + + +', 'read'],
  'POST /templates/convert-compose': ['+ + + + + + +', 'read'],
  'POST /templates/from-workloads': ['+ + + + + - -'],
  'POST /templates/:id/instantiate': ['+ + + + + - -'],
  'GET /template-instances': ['+ + f f f f f'],
  'GET /template-instances/:id': ['+ + + + + + -'],
  'PUT /template-instances/:id': ['+ + + + - - -'],
  'POST /template-instances/:id/rollback': ['+ + + + - - -'],
  'DELETE /template-instances/:id': ['+ + + + - - -'],
  'GET /syncs': ['+ + f f f f f'],
  'POST /syncs': ['+ + + + - - -'],
  'GET /syncs/:id': ['+ + + + + + -'],
  'PUT /syncs/:id': ['+ + + + - - -'],
  'DELETE /syncs/:id': ['+ + + + - - -'],
  'POST /syncs/:id/sync': ['+ + + + - - -'],
  'POST /syncs/:id/rollback': ['+ + + + - - -'],
  'GET /syncs/:id/runs': ['+ + + + + + -'],
  'GET /syncs/:id/events': ['+ + + + + + -'],

  'GET /audit': ['+ + f f - - -', admin],
  'GET /audit/verify': ['+ + - - - - -', admin],

  'GET /notifications': ['s s s s s s s', 'read', ['narrowed']],
  'POST /notifications/read': ['s s s s s s s', 'write', ['narrowed']],

  'WS /ws/deployments/:id/logs': ['+ + + + + + -'],
  'WS /ws/runs/:id/logs': ['+ + + + + + -'],
  'WS /ws/applications/:id/logs': ['+ + + + + + -'],
  'WS /ws/applications/:id/traffic': ['+ + + + + + -'],
  'WS /ws/databases/:id/logs': ['+ + + + + + -'],
  'WS /ws/databases/:id/tunnel': ['+ + + + + - -', 'write'],
  'WS /ws/servers/:id/metrics': ['+ + m m m m -'],
  'WS /ws/terminal/:sessionId': ['s s s s s s s', 'write', ['narrowed']],
  'WS /ws/notifications': ['s s s s s s s', 'read', ['narrowed']],
  'WS /ws/logs': ['f f f f f f f'],
  'WS /ws/servers/:id/logs': ['+ + - - - - -'],
  'WS /ws/watch': ['f f f f f f f'],
} as const satisfies Record<string, Row>;

export type RouteName = keyof typeof rows;

const grantMarks = new Set<string>(['+', '-', 'f', 'm', 's', 'P', 'r']);

function isGrant(mark: string | undefined): mark is Grant {
  return mark !== undefined && grantMarks.has(mark);
}

function permission(name: string, [grants, scope, given = []]: Row): Permission {
  const marks = grants.split(' ');
  const cells = columns.map((column, at) => {
    const mark = marks[at];
    if (!isGrant(mark)) throw new Error(`Permission of ${name} must have a mark for ${column}: got ${grants}`);
    return [column, mark] as const;
  });
  const reads = name.startsWith('GET ') || name.startsWith('WS ');
  return {
    // the map above covers every column, which fromEntries cannot express
    grants: Object.fromEntries(cells) as Record<Column, Grant>,
    scope: scope ?? (reads ? 'read' : 'write'),
    isMasked: given.includes('masked'),
    isOfNarrowed: given.includes('narrowed'),
    isSwitched: given.includes('switched'),
    isOpenInReset: given.includes('reset'),
  };
}

export const permissions: ReadonlyMap<string, Permission> = new Map(
  Object.entries<Row>(rows).map(([name, row]) => [name, permission(name, row)]),
);

/** The row of a route. @throws Error for a route without a row: it must not be mounted. */
export function permissionOf(method: string, path: string): Permission {
  const found = permissions.get(`${method} ${path}`);
  if (found === undefined) throw new Error(`Cannot mount route as it has no permission: ${method} ${path}`);
  return found;
}

/** Whether a route needs no credential. */
export function isPublic(permission: Permission): boolean {
  return permission.grants.other === 'P';
}

/** Whether only admins of the tenant may use a route, in every project. */
export function isForAdmins({ grants }: Permission): boolean {
  return columns.every((column) => column === 'superadmin' || column === 'admin' || grants[column] === '-');
}
