import type { components } from '../../api-types.d.ts';

export type AuditEntry = components['schemas']['AuditEntry'];

const actions = { create: 'made', change: 'changed', delete: 'deleted', read: 'read' } as const;

/** Words for requests that are about no object, by their route. */
const routes: Readonly<Record<string, string>> = {
  'POST /auth/login': 'signed in',
  'POST /auth/logout': 'signed out',
  'POST /auth/verify-code': 'signed in by a code',
  'PUT /auth/me/password': 'changed the password',
  'DELETE /auth/sessions': 'ended all other sessions',
  'DELETE /auth/sessions/:id': 'ended a session',
  'POST /auth/me/two-factor/confirm': 'enabled two factors',
  'DELETE /auth/me/two-factor': 'disabled two factors',
};

/** Who did it, in words. */
export function whoOf({ email, key_id: key, user_id: user, session_id: session }: AuditEntry): string {
  const name = email ?? (user === null ? 'Setpoint itself' : 'a deleted user');
  return key !== null && session === null ? `${name} by a key` : name;
}

/** What was done, in words; `undefined` for a route that has none. */
export function whatOf({ objects, route, terminal, count }: AuditEntry): string {
  if (terminal !== null) return terminal.event === 'opened' ? 'opened a terminal of' : 'closed a terminal of';
  const action = objects[0]?.action ?? undefined;
  const [method = '', path = ''] = route.split(' ');
  const verb = /\/:\w+\/([a-z-]+)$/.exec(path)?.[1];
  const text =
    routes[`${method} ${path}`] ??
    (verb !== undefined && method === 'POST' ? `asked for ${verb.replaceAll('-', ' ')} of` : undefined) ??
    (action === undefined ? `sent ${route}` : actions[action]);
  return count === null ? text : `${text} (${count} times)`;
}

/** The objects that a person would name: a session is only how somebody signed in. */
export function namedObjects({ objects }: AuditEntry): AuditEntry['objects'] {
  return objects.filter(({ kind }) => kind !== 'session');
}

/** An object of a record, as a person names it. */
export function objectText({ kind, name, id }: AuditEntry['objects'][number]): string {
  return `${kind.replaceAll('_', ' ')} ${name ?? `${id.slice(0, 8)}…`}`;
}
