import { z } from 'zod';
import type { Client } from '../client.ts';
import { aKind, findObject, kindOf, pathOf } from '../objects.ts';
import { printProvisioning } from './provision.ts';
import { printPublicHalf, withSecret } from './ssh-key.ts';
import type { SshKeyOptions } from './ssh-key.ts';

/** What the command changes of a server. `none` takes an address or an SSH key away. */
export interface ServerChange {
  address?: string;
  port?: number;
  user?: string;
  sshKey?: string;
  logRetentionDays?: number;
  projects?: string[];
}
type Options = { name?: string } & ServerChange & SshKeyOptions;

const optionsOf = {
  servers: ['address', 'port', 'user', 'sshKey', 'logRetentionDays', 'projects'],
  'ssh-keys': ['generate', 'privateKey', 'password'],
} as const satisfies Record<string, readonly (keyof Options)[]>;

const Reach = z.object({
  ip_address: z.string().nullable(),
  ssh_key_id: z.string().nullable(),
  agent_id: z.string().nullable(),
});

/** Changes a server, or the name and the secret of an SSH key. @throws Error if nothing is named that the kind has */
export async function set(client: Client, word: string, name: string, options: Options): Promise<void> {
  const kind = kindOf(word);
  if (kind !== 'servers' && kind !== 'ssh-keys')
    throw new Error(`Cannot set ${aKind(kind)}: only a server or an ssh-key; \`setpoint apply\` changes applications`);
  const given = [...optionsOf.servers, ...optionsOf['ssh-keys']].filter((it) => options[it] !== undefined);
  const foreign = given.find((it) => !optionsOf[kind].some((own) => own === it));
  if (foreign !== undefined)
    throw new Error(
      `${flagOf(foreign)} is not an option of ${aKind(kind)}: it has --name, ${optionsOf[kind].map(flagOf).join(', ')}`,
    );
  if (given.length === 0 && options.name === undefined)
    throw new Error(`Nothing to set: name what changes, by --name or ${optionsOf[kind].map(flagOf).join(', ')}`);
  const { id } = await findObject(client, kind, name);
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
  const changed = await client.request('PUT', path, { ...renamed, ...(await changeOf(client, options)) });
  console.log(`server ${now} is changed`);
  const { ip_address, ssh_key_id, agent_id } = Reach.parse(changed);
  const leads = options.address ?? options.port ?? options.user ?? options.sshKey;
  if (leads !== undefined && agent_id === null && ip_address !== null && ssh_key_id !== null) printProvisioning(now);
}

async function changeOf(client: Client, options: ServerChange): Promise<object> {
  const { address, port, user, sshKey, logRetentionDays, projects } = options;
  return {
    ...(address !== undefined && { ip_address: address === 'none' ? null : address }),
    ...(port !== undefined && { port }),
    ...(user !== undefined && { username: user }),
    ...(sshKey !== undefined && {
      ssh_key_id: sshKey === 'none' ? null : (await findObject(client, 'ssh-keys', sshKey)).id,
    }),
    ...(logRetentionDays !== undefined && { log_retention_days: logRetentionDays }),
    ...(projects !== undefined && { allowed_projects: await allowed(client, projects) }),
  };
}

async function allowed(client: Client, names: readonly string[]): Promise<'all' | string[]> {
  if (names.length === 1 && names[0] === 'all') return 'all';
  return Promise.all(names.map(async (it) => (await findObject(client, 'projects', it)).id));
}

/** As it is typed: `sshKey` is `--ssh-key`. */
function flagOf(option: string): string {
  return `--${option.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}
