import { repositoryOf } from '../../store/kinds/application.ts';
import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { gitCredential } from '../../store/kinds/git-credential.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { gitCredentialVerbs } from '../../rules/git-credential.ts';
import { FreeText, Line } from './fields.ts';
import { Labels, objectFields, objectFieldsOf, Reference } from './object-fields.ts';
import { defineResource } from './resource.ts';

const CredentialType = z.enum(['token', 'ssh']);

/** What users of projects may see of a credential. */
const GitCredentialSummary = z
  .object({ id: z.string(), name: z.string(), host: z.string(), type: CredentialType })
  .meta({ id: 'GitCredentialSummary' });

export const GitCredential = z
  .object({
    ...objectFields,
    name: z.string(),
    description: z.string().nullable(),
    host: z.string().meta({ description: 'The host that it is sent to, and its port if that is not the usual one' }),
    type: CredentialType,
    username: z.string().nullable().meta({ description: 'What a token is sent with; null for ssh' }),
    ca_certificate: z
      .string()
      .nullable()
      .meta({ description: 'PEM of the authority of the host; null: what the server trusts' }),
    public_key: z.string().nullable().meta({ description: 'The deploy key to add at the host; null for a token' }),
    fingerprint: z.string().nullable().meta({ description: 'SHA256:… of the public key; null for a token' }),
    host_keys: z.array(z.string()).meta({ description: 'The keys that the host may show by ssh; none for a token' }),
    allowed_projects: z
      .union([z.literal('all'), z.array(z.string())])
      .meta({ description: 'Projects that may use it' }),
    application_ids: z.array(z.string()).meta({ description: 'Applications whose repository is read with it' }),
    status: z.enum(gitCredentialVerbs.states),
  })
  .meta({ id: 'GitCredential' });
type GitCredential = z.infer<typeof GitCredential>;

const label = '[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?';
const hostPattern = new RegExp(`^(${label}(\\.${label})*|\\[[0-9A-Fa-f:.]+\\])(:[1-9][0-9]{0,4})?$`);
const GitHost = z
  .string()
  .max(260)
  .regex(hostPattern, 'Must be a host such as git.example.com, or with its port git.example.com:8443')
  .transform((host) => host.toLowerCase());

const secretText = (most: number) =>
  Line.min(1)
    .max(most)
    .refine((text) => text.isWellFormed(), 'Must be text');

/** A line of `known_hosts` or of `ssh-keyscan`, or only its last two words; the output is `TYPE BASE64`. */
const HostKey = z
  .string()
  .max(4000)
  .transform((line, context) => {
    const [, type = '', blob = ''] =
      /(?:^|\s)(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521))\s+([A-Za-z0-9+/]+={0,2})(?:\s|$)/.exec(line) ?? [];
    const bytes = Buffer.from(blob, 'base64');
    const isKey =
      bytes.length > 4 + type.length && bytes.subarray(4, 4 + bytes.readUInt32BE(0)).toString('latin1') === type;
    if (isKey && !line.trimStart().startsWith('@')) return `${type} ${blob}`;
    context.addIssue({
      code: 'custom',
      message:
        'Must be a host key as ssh-keyscan prints it: HOST TYPE BASE64, of ssh-ed25519, ecdsa-sha2-nistp… or ssh-rsa',
    });
    return z.NEVER;
  })
  .meta({ override: { type: 'string' } });

const Certificate = z
  .string()
  .max(64_000)
  .refine(
    (text) => /^-----BEGIN CERTIFICATE-----\n[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----\s*/.test(text.trimStart()),
    {
      message: 'Must be a certificate in PEM, from BEGIN CERTIFICATE to END CERTIFICATE',
    },
  );

const fields = z.strictObject({
  name: gitCredential.desired.shape.name,
  description: FreeText.max(2000).nullish(),
  host: GitHost.meta({
    description: 'It is sent to this host only: repositories of others are never read with it',
    override: { type: 'string' },
  }),
  type: CredentialType.meta({ description: 'token: for https; ssh: a deploy key. It never changes' }),
  username: z
    .string()
    .regex(/^[^\p{C}\s:]{1,200}$/u, 'Must be a user name without space and colon')
    .nullish()
    .meta({ description: 'What the token is sent with; by default x-access-token, which most hosts accept' }),
  token: secretText(4096).nullish().meta({ description: 'A token that may read; it is never shown again' }),
  ca_certificate: Certificate.nullish().meta({
    description: 'PEM of the authority of a host with a certificate that servers do not trust by themselves',
  }),
  generate: z.enum(['ed25519', 'rsa']).nullish().meta({ description: 'Make a deploy key of this type' }),
  private_key: z.string().min(1).max(20_000).nullish().meta({
    description: 'Import this deploy key: OpenSSH or PEM. It is never shown again',
  }),
  passphrase: secretText(1024).nullish().meta({ description: 'What private_key is encrypted with; it is not kept' }),
  host_keys: z.array(HostKey).max(20).nullish().meta({
    description:
      'For ssh: the keys that the host may show, as ssh-keyscan prints them. Compare them with what the host publishes: they are never learnt from a connection',
  }),
  allowed_projects: z
    .union([z.literal('all'), z.array(Reference).max(1000)])
    .nullish()
    .meta({ description: 'Projects that may use it; an application that has it keeps it until its next deployment' }),
  labels: Labels.optional(),
});

export const GitCredentialCreate = fields;
export type GitCredentialCreate = z.infer<typeof GitCredentialCreate>;
export const GitCredentialUpdate = fields.partial();
export type GitCredentialUpdate = z.infer<typeof GitCredentialUpdate>;

function toGitCredential(
  it: ReadonlyResource<'git_credential'>,
  { application_ids }: { application_ids: readonly string[] },
): GitCredential {
  const { name, description, host, credential, allowed_projects } = it.desired;
  return {
    ...objectFieldsOf(it),
    name,
    description: description ?? null,
    host,
    type: credential.type,
    ...shownOf(credential, name),
    allowed_projects: allowed_projects === undefined ? 'all' : [...allowed_projects],
    application_ids: [...application_ids],
    status: application_ids.length === 0 ? 'unused' : 'used',
  };
}

type Stored = ReadonlyResource<'git_credential'>['desired']['credential'];

function shownOf(
  credential: Stored,
  name: DesiredOf<'git_credential'>['name'],
): Pick<GitCredential, 'username' | 'ca_certificate' | 'public_key' | 'fingerprint' | 'host_keys'> {
  const none = { username: null, ca_certificate: null, public_key: null, fingerprint: null, host_keys: [] };
  if (credential.type === 'token')
    return { ...none, username: credential.username, ca_certificate: credential.ca_certificate ?? null };
  const blob = Buffer.from(credential.public_key.split(' ')[1] ?? '', 'base64');
  const hash = createHash('sha256').update(blob).digest('base64').replaceAll('=', '');
  return {
    ...none,
    public_key: `${credential.public_key} ${name}`,
    fingerprint: `SHA256:${hash}`,
    host_keys: [...credential.host_keys],
  };
}

export const gitCredentials = defineResource({
  kind: 'git_credential',
  word: 'Git credential',
  project: 'tenant',
  answer: GitCredential,
  seen: ({ meta }, view) => ({
    application_ids: view.by('application', 'git_credential', meta.id).map((it) => it.meta.id),
  }),
  show: toGitCredential,
  masked: {
    answer: GitCredentialSummary,
    show: ({ meta, desired: { name, host, credential } }) => ({ id: meta.id, name, host, type: credential.type }),
  },
  list: {
    texts: ({ desired }) => [desired.name, desired.host, desired.description],
    status: {
      values: gitCredentialVerbs.states,
      of: ({ meta }, view) => (view.by('application', 'git_credential', meta.id).length === 0 ? 'unused' : 'used'),
    },
  },
  verbs: gitCredentialVerbs,
  watch: {
    shows: {
      application: ({ before, after }) => {
        const ids = [before, after].map((it) =>
          it === undefined ? undefined : repositoryOf(it.desired.source)?.git_credential_id,
        );
        return ids[0] === ids[1] ? [] : ids.flatMap((id) => id ?? []);
      },
    },
  },
});
