import { z } from 'zod';
import { defineKind } from './define.ts';
import { Name, Sealed } from './fields.ts';

/** What proves to a machine who logs in. Each secret is sealed for its field, such as `credential.private_key`. */
const SshCredential = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('key'),
    /** Such as `ed25519`, `rsa-4096` or `ecdsa-nistp256`. */
    algorithm: z.string(),
    /** A line of `authorized_keys` without its comment. */
    public_key: z.string(),
    /** In a form that needs no passphrase. */
    private_key: Sealed,
  }),
  /** For machines that know passwords only; it also answers `sudo`. */
  z.object({ type: z.literal('password'), password: Sealed }),
]);
export type SshCredential = z.infer<typeof SshCredential>;

/** What the control plane logs in to servers with. */
export const sshKey = defineKind({
  kind: 'ssh_key',
  version: 1,
  /** Only the API acts on it. */
  ignorable: true,
  desired: z.object({
    name: Name,
    description: z.string().max(2000).optional(),
    credential: SshCredential,
  }),
  observed: z.object({}),
  unique: (d) => [{ scope: 'all', name: d.name }],
  keep: { untilDeleted: 'An admin of the tenant deletes it, once no server uses it' },
});
