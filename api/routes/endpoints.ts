import type { AnyEndpoint } from '../endpoint/endpoint.ts';
import * as applicationEnv from './applications/env.ts';
import * as applicationLogs from './applications/logs.ts';
import * as applicationMetrics from './applications/metrics.ts';
import * as applications from './applications/object.ts';
import * as applicationParts from './applications/application-lists.ts';
import * as applicationSync from './applications/sync.ts';
import * as applicationTerminal from './applications/terminal.ts';
import * as applicationVerbs from './applications/verbs.ts';
import * as audit from './audit.ts';
import * as auth from './auth/login.ts';
import * as deployments from './deployments.ts';
import * as environments from './projects/environments.ts';
import * as invites from './projects/invites.ts';
import * as limits from './limits.ts';
import * as loginCodes from './auth/login-codes.ts';
import * as members from './projects/members.ts';
import * as notifications from './notifications.ts';
import * as projectIcon from './projects/icon.ts';
import * as projects from './projects/object.ts';
import * as serviceKeys from './auth/service-keys.ts';
import * as serverAdoption from './servers/adopt.ts';
import * as serverAgents from './servers/agent.ts';
import * as serverDiagnosis from './servers/diagnose.ts';
import * as serverJoins from './servers/join.ts';
import * as serverMetrics from './servers/metrics.ts';
import * as serverTunnels from './servers/tunnel.ts';
import * as serverLogs from './servers/logs.ts';
import * as serverMachines from './servers/machine.ts';
import * as servers from './servers/object.ts';
import * as serverTerminals from './servers/terminal.ts';
import * as serverUpdates from './servers/update-agent.ts';
import * as settings from './settings.ts';
import * as system from './system.ts';
import * as sessions from './auth/sessions.ts';
import * as sshKeys from './ssh-keys.ts';
import * as streamTickets from './auth/stream-tickets.ts';
import * as twoFactor from './auth/two-factor.ts';
import * as userInvites from './users/invites.ts';
import * as users from './users/object.ts';
import * as volumes from './volumes.ts';

const areas = {
  auth: { ...auth, ...loginCodes, ...twoFactor, ...sessions, ...streamTickets },
  users: { ...users, ...userInvites },
  settings: { ...settings, ...limits },
  'service-keys': serviceKeys,
  'ssh-keys': sshKeys,
  projects: { ...projects, ...projectIcon },
  members,
  invites,
  environments,
  servers: {
    ...servers,
    ...serverAgents,
    ...serverMachines,
    ...serverJoins,
    ...serverLogs,
    ...serverMetrics,
    ...serverTerminals,
    ...serverTunnels,
    ...serverDiagnosis,
    ...serverUpdates,
    ...serverAdoption,
  },
  applications: {
    ...applications,
    ...applicationEnv,
    ...applicationParts,
    ...applicationLogs,
    ...applicationMetrics,
    ...applicationSync,
    ...applicationVerbs,
    ...applicationTerminal,
  },
  system,
  deployments,
  volumes,
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
