import { z } from 'zod';

/** What a private repository is read with. It is sent only to the host that it names. */
export const GitCredential = z.discriminatedUnion('type', [
  /** By https, as HTTP Basic. */
  z.object({
    type: z.literal('token'),
    /** `HOST` or `HOST:PORT` in lower case, without the default port. */
    host: z.string(),
    username: z.string(),
    token: z.string(),
    /** PEM of the authority that issued the host's certificate; absent: those that the machine trusts. */
    ca_certificate: z.string().optional(),
  }),
  /** By ssh. */
  z.object({
    type: z.literal('ssh'),
    host: z.string(),
    /** In OpenSSH's or PEM form, without a passphrase. */
    private_key: z.string(),
    /** The keys by which the host may prove itself, each as `TYPE BASE64`. */
    host_keys: z.array(z.string()).min(1),
  }),
]);
export type GitCredential = z.infer<typeof GitCredential>;
