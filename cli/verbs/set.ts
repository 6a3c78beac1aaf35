import { z } from 'zod';
import type { Client } from '../client.ts';
import { aKind, findObject, kindOf, pathOf } from '../objects.ts';
import type { CliKind } from '../objects.ts';
import { allowedProjects } from './allowed-projects.ts';
import { setDatabase } from './db.ts';
import type { DatabaseChange } from './db.ts';
import { setDestination } from './destination.ts';
import type { DestinationOptions } from './destination.ts';
import { setGitCredential } from './git-credential.ts';
import type { GitCredentialOptions } from './git-credential.ts';
import { printProvisioning } from './provision.ts';
import { setRegistry } from './registry.ts';
import type { RegistryOptions } from './registry.ts';
import { printPublicHalf, withSecret } from './ssh-key.ts';
import type { SshKeyOptions } from './ssh-key.ts';
import { setWebhook } from './webhook.ts';
import type { WebhookOptions } from './webhook.ts';

/** What the command changes of a server. `none` takes an address, an SSH key or the address of mail away. */
export interface ServerChange {
  address?: string;
  port?: number;
  user?: string;
  sshKey?: string;
  logRetentionDays?: number;
  projects?: string[];
  ingress?: 'on' | 'off';
  acmeEmail?: string;
}
type Options = { name?: string; project?: string } & ServerChange &
  DatabaseChange &
  SshKeyOptions &
  GitCredentialOptions &
  RegistryOptions &
  DestinationOptions &
  WebhookOptions;

const optionsOf = {
  servers: ['address', 'port', 'user', 'sshKey', 'logRetentionDays', 'projects', 'ingress', 'acmeEmail'],
  'ssh-keys': ['generate', 'privateKey', 'password'],
  'git-credentials': ['host', 'accessToken', 'username', 'ca', 'generate', 'privateKey', 'hostKeys', 'projects'],
  registries: ['address', 'username', 'password', 'projects', 'untested'],
  'backup-destinations': [
    'provider',
    'bucket',
    'region',
    'endpoint',
    'accountId',
    'jurisdiction',
    'pathPrefix',
    'pathStyle',
    'ca',
    'storageClass',
    'accessKey',
    'secretKey',
  ],
  'git-webhooks': ['provider', 'repository', 'previews', 'secret', 'newSecret'],
  databases: ['memory', 'cpus', 'exposed', 'pooling', 'requireTls'],
} as const satisfies Record<string, readonly (keyof Options)[]>;

const Reach = z.object({
  ip_address: z.string().nullable(),
  ssh_key_id: z.string().nullable(),
  agent_id: z.string().nullable(),
});

type Settable = keyof typeof optionsOf;
const settable = Object.keys(optionsOf) as Settable[]; // the keys of the table

function isSettable(kind: CliKind): kind is Settable {
  return Object.hasOwn(optionsOf, kind);
}

/**
 * Changes a server, a database, a webhook, a backup destination, or the name and the secret of an SSH key, a git
 * credential or a registry.
 *
 * @throws Error if nothing is named that the kind has
 */
export async function set(client: Client, word: string, name: string, options: Options): Promise<void> {
  const kind = kindOf(word);
  if (!isSettable(kind))
    throw new Error(
      `Cannot set ${aKind(kind)}: only ${settable.map(aKind).join(' or ')}; \`setpoint apply\` changes applications`,
    );
  const given = optionsGiven(kind, options);
  const { id, project_id: project } = await findObject(
    client,
    kind,
    name,
    kind === 'git-webhooks' || kind === 'databases' ? options.project : undefined,
  );
  const path = pathOf(kind, { id });
  const renamed = options.name === undefined ? {} : { name: options.name };
  const now = options.name ?? name;
  if (kind === 'ssh-keys') {
    const send = (secret: object): Promise<unknown> => client.request('PUT', path, { ...renamed, ...secret });
    const changed = await withSecret(send, options);
    console.log(`ssh-key ${now} is changed`);
    if (given.length > 0) printPublicHalf(changed);
    return;
  }
  if (kind === 'git-credentials') {
    await setGitCredential(client, path, renamed, options);
    console.log(`git-credential ${now} is changed`);
    return;
  }
  if (kind === 'registries') {
    await setRegistry(client, path, renamed, options);
    console.log(`registry ${now} is changed`);
    return;
  }
  if (kind === 'backup-destinations') {
    await setDestination(client, path, renamed, options);
    console.log(`backup-destination ${now} is changed`);
    return;
  }
  if (kind === 'databases') {
    await setDatabase(client, path, renamed, options);
    console.log(`database ${now} is changed`);
    return;
  }
  if (kind === 'git-webhooks') {
    await setWebhook(client, path, renamed, { now, project: String(project) }, options);
    return;
  }
  const changed = await client.request('PUT', path, { ...renamed, ...(await changeOf(client, options)) });
  console.log(`server ${now} is changed`);
  const { ip_address, ssh_key_id, agent_id } = Reach.parse(changed);
  const leads = options.address ?? options.port ?? options.user ?? options.sshKey;
  if (leads !== undefined && agent_id === null && ip_address !== null && ssh_key_id !== null) printProvisioning(now);
}

/** The options that were given. @throws Error if one is not of the kind, or nothing is named that changes */
function optionsGiven(kind: Settable, options: Options): (keyof Options)[] {
  const every = new Set(Object.values<readonly (keyof Options)[]>(optionsOf).flat());
  const given = [...every].filter((it) => options[it] !== undefined);
  const foreign = given.find((it) => !optionsOf[kind].some((own) => own === it));
  if (foreign !== undefined)
    throw new Error(
      `${flagOf(foreign)} is not an option of ${aKind(kind)}: it has --name, ${optionsOf[kind].map(flagOf).join(', ')}`,
    );
  if (given.length === 0 && options.name === undefined)
    throw new Error(`Nothing to set: name what changes, by --name or ${optionsOf[kind].map(flagOf).join(', ')}`);
  return given;
}

async function changeOf(client: Client, options: ServerChange): Promise<object> {
  const { address, port, user, sshKey, logRetentionDays, projects, ingress, acmeEmail } = options;
  const proxy = {
    ...(ingress !== undefined && { enabled: ingress === 'on' }),
    ...(acmeEmail !== undefined && { acme_email: acmeEmail === 'none' ? null : acmeEmail }),
  };
  return {
    ...(address !== undefined && { ip_address: address === 'none' ? null : address }),
    ...(port !== undefined && { port }),
    ...(user !== undefined && { username: user }),
    ...(sshKey !== undefined && {
      ssh_key_id: sshKey === 'none' ? null : (await findObject(client, 'ssh-keys', sshKey)).id,
    }),
    ...(logRetentionDays !== undefined && { log_retention_days: logRetentionDays }),
    ...(projects !== undefined && { allowed_projects: await allowedProjects(client, projects) }),
    ...(Object.keys(proxy).length > 0 && { ingress: proxy }),
  };
}

/** How an option is written, such as `--ssh-key` for `sshKey`. */
export function flagOf(option: string): string {
  return `--${option.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}
