import { z } from 'zod';
import { defineKind } from './define.ts';
import { Id, Name, Sealed } from './fields.ts';

/** What proves to a git host who reads. Each secret is sealed for its field, such as `credential.token`. */
const StoredCredential = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('token'),
    /** Sent with the token by HTTP Basic. */
    username: z.string(),
    token: Sealed,
    /** PEM of the authority that issued the certificate of the host; absent: those that the server trusts. */
    ca_certificate: z.string().optional(),
  }),
  z.object({
    type: z.literal('ssh'),
    /** Such as `ed25519`, `rsa-4096` or `ecdsa-nistp256`. */
    algorithm: z.string(),
    /** A line of `authorized_keys` without its comment. */
    public_key: z.string(),
    /** In a form that needs no passphrase. */
    private_key: Sealed,
    /** The keys by which the host may prove itself, each as `TYPE BASE64`; no other one is talked to. */
    host_keys: z.array(z.string()).min(1),
  }),
]);
export type StoredCredential = z.infer<typeof StoredCredential>;

/** What servers read private repositories of one host with. */
export const gitCredential = defineKind({
  kind: 'git_credential',
  version: 1,
  /** Only the API and the gateway act on it. */
  ignorable: true,
  desired: z.object({
    name: Name,
    description: z.string().max(2000).optional(),
    /** `HOST` or `HOST:PORT` in lower case, without the default port: it is sent nowhere else. */
    host: z.string(),
    credential: StoredCredential,
    /** Projects that may use it; absent: all. */
    allowed_projects: z.array(Id).max(1000).optional(),
  }),
  observed: z.object({}),
  unique: (d) => [{ scope: 'all', name: d.name }],
  keep: { untilDeleted: 'An admin of the tenant deletes it, once no application uses it' },
});
