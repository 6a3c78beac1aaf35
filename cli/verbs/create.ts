import { z } from 'zod';
import { ApiObject } from '../client.ts';
import type { Client } from '../client.ts';
import type { CliKind } from '../objects.ts';
import { findObject, kindOf, typedKind } from '../objects.ts';
import { placeOf } from '../place.ts';
import { createDatabase } from './db.ts';
import type { DatabaseOptions } from './db.ts';
import { createDestination } from './destination.ts';
import type { DestinationOptions } from './destination.ts';
import { createFunction } from './function.ts';
import type { FunctionOptions } from './function.ts';
import { createGitCredential } from './git-credential.ts';
import type { GitCredentialOptions } from './git-credential.ts';
import { followProvisioning, printProvisioning } from './provision.ts';
import { createWebhook } from './webhook.ts';
import type { WebhookOptions } from './webhook.ts';
import { createRegistry } from './registry.ts';
import type { RegistryOptions } from './registry.ts';
import { createTemplate } from './template.ts';
import { createSshKey } from './ssh-key.ts';
import type { SshKeyOptions } from './ssh-key.ts';

const Join = z.object({
  install_command: z.string(),
  join_token_expires_at: z.string(),
  /** Earlier releases have none. */
  install_warnings: z.array(z.string()).default([]),
});

/** Of a server. */
export interface ServerOptions {
  directPorts?: boolean;
  address?: string;
  sshKey?: string;
  hostKey?: string;
  port?: number;
  user?: string;
  /** Until its machine is provisioned. */
  wait?: boolean;
}

type Options = { project?: string; on?: string; file?: string } & ServerOptions &
  SshKeyOptions &
  GitCredentialOptions &
  RegistryOptions &
  WebhookOptions &
  DatabaseOptions &
  FunctionOptions &
  DestinationOptions;

/** Creates an object of a kind; for a server it prints how its agent joins, for a webhook its address and its secret. */
export async function create(
  client: Client,
  word: string,
  named: string | undefined,
  options: Options,
  signal: AbortSignal,
): Promise<void> {
  const kind = kindOf(word);
  if (kind === 'templates') {
    await createTemplate(client, named, options);
    return;
  }
  if (named === undefined) throw new Error(`Say what it is called: setpoint create ${word} NAME`);
  await createNamed(client, kind, named, options, signal);
}

async function createNamed(
  client: Client,
  kind: Exclude<CliKind, 'templates'>,
  name: string,
  options: Options,
  signal: AbortSignal,
): Promise<void> {
  switch (kind) {
    case 'projects':
      await client.request('POST', '/api/v1/projects', { name });
      break;
    case 'environments':
      await createEnvironment(client, name, options);
      break;
    case 'servers':
      await createServer(client, name, options, signal);
      return;
    case 'volumes': {
      await client.request('POST', '/api/v1/volumes', { ...(await placeOf(client, 'volume', options)), name });
      break;
    }
    case 'databases':
      await createDatabase(client, name, options);
      break;
    case 'functions':
      await createFunction(client, name, options);
      break;
    case 'git-webhooks':
      await createWebhook(client, name, options);
      return;
    case 'ssh-keys':
      await createSshKey(client, name, options);
      return;
    case 'git-credentials':
      await createGitCredential(client, name, options);
      return;
    case 'registries':
      await createRegistry(client, name, options);
      return;
    case 'backup-destinations':
      await createDestination(client, name, options);
      return;
    default:
      throw new Error(`Cannot create ${kind} by this command: use \`setpoint ${otherwise[kind]}\``);
  }
  console.log(`${typedKind(kind)} ${name} is created`);
}

async function createEnvironment(client: Client, name: string, { project: of }: Options): Promise<void> {
  if (of === undefined) throw new Error('An environment is created in a project: name it by --project');
  const project = await findObject(client, 'projects', of);
  await client.request('POST', `/api/v1/projects/${project.id}/environments`, { name });
}

const otherwise = {
  applications: 'apply -f FILE',
  deployments: 'deploy APPLICATION',
  runs: 'run APPLICATION -- COMMAND',
  previews: 'preview create NAME --branch BRANCH',
  'template-instances': 'instantiate TEMPLATE --project PROJECT',
  syncs: 'sync create NAME --project PROJECT --repository URL',
  backups: 'backup DATABASE',
  restores: 'restore BACKUP',
  'backup-schedules': 'backup DATABASE --every "30 3 * * *"',
} as const;

async function createServer(client: Client, name: string, options: ServerOptions, signal: AbortSignal): Promise<void> {
  const { directPorts, address, sshKey, hostKey, port, user } = options;
  if ((address === undefined) !== (sshKey === undefined))
    throw new Error('A machine is provisioned by SSH with both: --address and --ssh-key');
  if (options.wait === true && sshKey === undefined)
    throw new Error('--wait follows what is done by SSH: name --address and --ssh-key');
  const created = await client.request('POST', '/api/v1/servers', {
    name,
    ...(directPorts === true && { direct_ports_enabled: true }),
    ...(address !== undefined && { ipAddress: address }),
    ...(sshKey !== undefined && { sshKeyId: (await findObject(client, 'ssh-keys', sshKey)).id }),
    ...(hostKey !== undefined && { host_key: { fingerprint: hostKey } }),
    ...(port !== undefined && { port }),
    ...(user !== undefined && { username: user }),
  });
  console.log(`server ${name} is created`);
  if (sshKey === undefined) {
    printJoin(created);
    return;
  }
  printWarnings(Join.parse(created).install_warnings);
  if (options.wait === true) await followProvisioning(client, ApiObject.parse(created), signal);
  else printProvisioning(name);
}

/**
 * Makes a new join token for a server. The earlier one is void, and an agent that joins with the new one takes over.
 */
export async function join(client: Client, name: string): Promise<void> {
  const server = await findObject(client, 'servers', name);
  printJoin(await client.request('POST', `/api/v1/servers/${server.id}/join-token`, {}));
}

function printJoin(answer: unknown): void {
  const { install_command: command, install_warnings: warnings, join_token_expires_at: until } = Join.parse(answer);
  console.log(`Run this on that machine as root, once, before ${until}:\n  ${command}`);
  printWarnings(warnings);
}

function printWarnings(warnings: readonly string[]): void {
  for (const warning of warnings) console.error(`Warning: ${warning}`);
}
