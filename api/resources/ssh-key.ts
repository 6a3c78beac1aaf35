import { createHash } from 'node:crypto';
import { z } from 'zod';
import { sshKey } from '../../store/kinds/ssh-key.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { sshKeyVerbs } from '../../rules/ssh-key.ts';
import { FreeText } from './fields.ts';
import { Labels, objectFields, objectFieldsOf } from './object-fields.ts';
import { defineResource } from './resource.ts';

export const SshKey = z
  .object({
    ...objectFields,
    name: z.string(),
    description: z.string().nullable(),
    type: z.string().meta({ description: 'Such as ed25519, rsa-4096, ecdsa-nistp256; or password' }),
    public_key: z.string().nullable().meta({
      description: 'The line for authorized_keys, with the name as its comment; null for a password',
    }),
    fingerprint: z
      .string()
      .nullable()
      .meta({ description: 'SHA256:…, as ssh-keygen -l shows it; null for a password' }),
    server_ids: z.array(z.string()).meta({ description: 'Servers that log in with it' }),
    status: z.enum(sshKeyVerbs.states),
  })
  .meta({ id: 'SshKey' });
type SshKey = z.infer<typeof SshKey>;

// a control character would end the line on which a machine reads the password
const control = /\p{Cc}/u;
const Secret = z
  .string()
  .min(1)
  .max(1024)
  .refine((text) => text.isWellFormed() && !control.test(text), 'Must not contain control characters');

const fields = z.strictObject({
  name: sshKey.desired.shape.name,
  description: FreeText.max(2000).nullish(),
  generate: z.enum(['ed25519', 'rsa']).nullish().meta({ description: 'Make a key of this type; rsa has 4096 bits' }),
  private_key: z.string().min(1).max(20_000).nullish().meta({
    description:
      'Import this key: OpenSSH or PEM; Ed25519, ECDSA, or RSA of at least 2048 bits. It is never shown again',
  }),
  passphrase: Secret.nullish().meta({ description: 'What private_key is encrypted with; it is not kept' }),
  password: Secret.nullish().meta({
    description: 'For machines that know passwords only; it also answers sudo. It is never shown again',
  }),
  labels: Labels.optional(),
});

export const SshKeyCreate = fields;
export const SshKeyUpdate = fields.partial();
/** The fields of a body that give the secret. */
export type SecretFields = Pick<z.infer<typeof SshKeyUpdate>, 'generate' | 'private_key' | 'passphrase' | 'password'>;

function toSshKey(it: ReadonlyResource<'ssh_key'>, { server_ids }: { server_ids: readonly string[] }): SshKey {
  const { name, description, credential } = it.desired;
  const key = credential.type === 'key' ? credential : undefined;
  return {
    ...objectFieldsOf(it),
    name,
    description: description ?? null,
    type: key?.algorithm ?? 'password',
    public_key: key === undefined ? null : `${key.public_key} ${name}`,
    fingerprint: key === undefined ? null : fingerprintOf(key.public_key),
    server_ids: [...server_ids],
    status: server_ids.length === 0 ? 'unused' : 'used',
  };
}

/** The fingerprint of a line of `authorized_keys`, as OpenSSH writes it. */
function fingerprintOf(line: string): string {
  const blob = Buffer.from(line.split(' ')[1] ?? '', 'base64');
  return `SHA256:${createHash('sha256').update(blob).digest('base64').replaceAll('=', '')}`;
}

export const sshKeys = defineResource({
  kind: 'ssh_key',
  word: 'SSH key',
  project: 'tenant',
  answer: SshKey,
  seen: ({ meta }, view) => ({ server_ids: view.by('server', 'ssh_key', meta.id).map((it) => it.meta.id) }),
  show: toSshKey,
  list: {
    texts: ({ desired }) => [desired.name, desired.description],
    status: {
      values: sshKeyVerbs.states,
      of: ({ meta }, view) => (view.by('server', 'ssh_key', meta.id).length === 0 ? 'unused' : 'used'),
    },
  },
  verbs: sshKeyVerbs,
  watch: {
    shows: {
      server: ({ before, after }) =>
        before?.desired.ssh_key_id === after?.desired.ssh_key_id
          ? []
          : [before, after].flatMap((it) => it?.desired.ssh_key_id ?? []),
    },
  },
});
