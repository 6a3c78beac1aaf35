import type { AnyEndpoint } from './endpoint.ts';
import * as applicationReads from './routes/application-reads.ts';
import * as applicationVerbs from './routes/application-verbs.ts';
import * as applications from './routes/applications.ts';
import * as audit from './routes/audit.ts';
import * as auth from './routes/auth.ts';
import * as deployments from './routes/deployments.ts';
import * as environments from './routes/environments.ts';
import * as invites from './routes/invites.ts';
import * as limits from './routes/limits.ts';
import * as loginCodes from './routes/login-codes.ts';
import * as members from './routes/members.ts';
import * as notifications from './routes/notifications.ts';
import * as projectIcon from './routes/project-icon.ts';
import * as projects from './routes/projects.ts';
import * as serviceKeys from './routes/service-keys.ts';
import * as servers from './routes/servers.ts';
import * as settings from './routes/settings.ts';
import * as sessions from './routes/sessions.ts';
import * as streamTickets from './routes/stream-tickets.ts';
import * as twoFactor from './routes/two-factor.ts';
import * as userInvites from './routes/user-invites.ts';
import * as users from './routes/users.ts';

const areas = {
  auth: { ...auth, ...loginCodes, ...twoFactor, ...sessions, ...streamTickets },
  users: { ...users, ...userInvites },
  settings: { ...settings, ...limits },
  'service-keys': serviceKeys,
  projects: { ...projects, ...projectIcon },
  members,
  invites,
  environments,
  servers,
  applications: { ...applications, ...applicationReads, ...applicationVerbs },
  deployments,
  notifications,
  audit,
};

function isEndpoint(value: unknown): value is AnyEndpoint {
  return typeof value === 'object' && value !== null && 'handle' in value && 'method' in value;
}

/** Every endpoint by area and name; the name is its operation id in the OpenAPI document. */
export const endpointsByArea: Readonly<Record<string, Readonly<Record<string, AnyEndpoint>>>> = Object.fromEntries(
  Object.entries(areas).map(([area, exported]) => [area, named(exported)]),
);

function named(exported: object): Record<string, AnyEndpoint> {
  const found: Record<string, AnyEndpoint> = {};
  for (const [name, value] of Object.entries<unknown>(exported as Record<string, unknown>))
    // the exports of a module, by name
    if (isEndpoint(value)) found[name] = value;
  return found;
}

export const endpoints: readonly AnyEndpoint[] = Object.values(endpointsByArea).flatMap((area) => Object.values(area));
