import type { AnyEndpoint } from '../endpoint/endpoint.ts';
import * as apply from './apply.ts';
import * as applicationDockerfile from './applications/dockerfile.ts';
import * as applicationCompose from './applications/compose.ts';
import * as applicationEnv from './applications/env.ts';
import * as applicationLogs from './applications/logs.ts';
import * as applicationMetrics from './applications/metrics.ts';
import * as applicationTraffic from './applications/traffic.ts';
import * as applications from './applications/object.ts';
import * as applicationParts from './applications/application-lists.ts';
import * as applicationSync from './applications/sync.ts';
import * as applicationTerminal from './applications/terminal.ts';
import * as applicationVerbs from './applications/verbs.ts';
import * as audit from './audit.ts';
import * as auth from './auth/login.ts';
import * as backupDestinations from './backup-destinations.ts';
import * as backupSchedules from './backup-schedules.ts';
import * as backups from './backups.ts';
import * as compose from './compose.ts';
import * as databaseParts from './databases/observe.ts';
import * as databaseRecovery from './databases/recovery.ts';
import * as databaseTerminal from './databases/terminal.ts';
import * as databasePassword from './databases/rotate-password.ts';
import * as databases from './databases/object.ts';
import * as deployments from './deployments.ts';
import * as environments from './projects/environments.ts';
import * as functionParts from './functions/observe.ts';
import * as functions from './functions/object.ts';
import * as functionVerbs from './functions/verbs.ts';
import * as invites from './projects/invites.ts';
import * as limits from './limits.ts';
import * as loginCodes from './auth/login-codes.ts';
import * as members from './projects/members.ts';
import * as notifications from './notifications.ts';
import * as previews from './previews.ts';
import * as projectIcon from './projects/icon.ts';
import * as projects from './projects/object.ts';
import * as restores from './restores.ts';
import * as volumeRestores from './volume-restores.ts';
import * as runs from './runs.ts';
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
import * as registries from './registries.ts';
import * as gitCredentials from './git-credentials.ts';
import * as sshKeys from './ssh-keys.ts';
import * as streamTickets from './auth/stream-tickets.ts';
import * as syncs from './syncs.ts';
import * as templateInstances from './templates/instances.ts';
import * as templates from './templates/object.ts';
import * as templateTexts from './templates/texts.ts';
import * as templateWorkloads from './templates/from-workloads.ts';
import * as twoFactor from './auth/two-factor.ts';
import * as userInvites from './users/invites.ts';
import * as users from './users/object.ts';
import * as volumes from './volumes.ts';
import * as webhookCalls from './webhooks/calls.ts';
import * as webhookDeliveries from './webhooks/deliveries.ts';
import * as webhooks from './webhooks/object.ts';

const areas = {
  auth: { ...auth, ...loginCodes, ...twoFactor, ...sessions, ...streamTickets },
  users: { ...users, ...userInvites },
  settings: { ...settings, ...limits },
  'service-keys': serviceKeys,
  'ssh-keys': sshKeys,
  'git-credentials': gitCredentials,
  registries,
  'backup-destinations': backupDestinations,
  backups,
  'backup-schedules': backupSchedules,
  restores,
  volumeRestores,
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
    ...applicationDockerfile,
    ...applicationCompose,
    ...applicationEnv,
    ...applicationParts,
    ...applicationLogs,
    ...applicationMetrics,
    ...applicationTraffic,
    ...applicationSync,
    ...applicationVerbs,
    ...applicationTerminal,
  },
  compose,
  system,
  deployments,
  databases: { ...databases, ...databaseParts, ...databasePassword, ...databaseRecovery, ...databaseTerminal },
  functions: { ...functions, ...functionVerbs, ...functionParts },
  runs,
  volumes,
  previews,
  apply,
  templates: { ...templates, ...templateTexts, ...templateWorkloads },
  'template-instances': templateInstances,
  syncs,
  webhooks: { ...webhooks, ...webhookCalls, ...webhookDeliveries },
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
