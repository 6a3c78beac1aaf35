import { z } from 'zod';

const List = z.string().transform((text) => text.split(',').filter((it) => it !== ''));

/** Everything that an agent can be told. Each is a flag, and `SETPOINT_…` in the environment. */
export const AgentConfig = z
  .object({
    /** Base address of the control plane with its tenant, `https://setpoint.example.com/default`; several: its replicas. */
    server: List.pipe(z.tuple([z.url()], z.url())),
    /** Whether the control plane may be reached without TLS beyond this machine. */
    allowPlainHttp: z.union([z.boolean(), z.stringbool()]).default(false),
    /** Needed once; afterwards the agent has its own identity. */
    token: z.string().optional(),
    data: z.string().default('/var/lib/setpoint/agent'),
    runtime: z.enum(['docker', 'mock']).default('docker'),
    dockerSocket: z.string().default('/var/run/docker.sock'),
    /** Whether ports are taken from agents whose rules are here, and which do not run here any more. */
    takeOverPorts: z.union([z.boolean(), z.stringbool()]).default(false),
    /** Where the engine keeps images and containers: nothing is built or pulled when little space is left there. */
    dockerRoot: z.string().default('/var/lib/docker'),
    /**
     * Images of this machine that every project may use though no registry has them: `NAME`, `NAME:TAG`, `PREFIX/*`, or `*`
     * for all.
     */
    localImages: List.default([]),
    /** Protocols that sources may be fetched by, beside https and ssh. */
    gitProtocols: List.pipe(z.array(z.enum(['http', 'file']))).default([]),
    /** Folders below which repositories may be taken by `file://`. */
    gitFileRoots: List.default([]),
    /** Whether repositories may be fetched from this machine itself. */
    gitLoopback: z.union([z.boolean(), z.stringbool()]).default(false),
    /** Private networks that repositories may be fetched from, `10.0.0.0/8`. */
    gitPrivateNetworks: List.pipe(z.array(z.union([z.cidrv4(), z.cidrv6()]))).default([]),
    /** Configuration of ssh for fetching sources: key, known hosts. */
    sshConfig: z.string().optional(),
    logLevel: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace']).default('info'),
  })
  .refine(({ server, allowPlainHttp }) => allowPlainHttp || server.every(isPrivate), {
    path: ['server'],
    message:
      'Must be https: by http, join token and secrets of workloads can be read on the way, and the control plane be replaced. ' +
      'On a network that nobody else is on, allow it by --allow-plain-http',
  });
export type AgentConfig = z.output<typeof AgentConfig>;

/** By TLS, or within this machine. */
function isPrivate(address: string): boolean {
  const { protocol, hostname } = new URL(address);
  return protocol === 'https:' || /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);
}
