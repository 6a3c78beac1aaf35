import { z } from 'zod';
import { isPrivate } from '../agent-protocol/control-plane-url.ts';

const List = z.string().transform((text) => text.split(',').filter((it) => it !== ''));

/** The configuration of the agent. Each setting is a flag and a variable `SETPOINT_…` of the environment. */
export const AgentConfig = z
  .object({
    /** Base URLs of the control plane with its tenant, `https://setpoint.example.com/default`: one for each replica. */
    server: List.pipe(z.tuple([z.url()], z.url())),
    /** Whether the control plane may be reached without TLS from another machine. */
    allowPlainHttp: z.union([z.boolean(), z.stringbool()]).default(false),
    /** Needed once, to join; afterwards the agent has an identity of its own. */
    token: z.string().optional(),
    data: z.string().default('/var/lib/setpoint/agent'),
    runtime: z.enum(['docker', 'mock']).default('docker'),
    dockerSocket: z.string().default('/var/run/docker.sock'),
    /** Whether the agent takes ports from agents that left rules on this machine but no longer run here. */
    takeOverPorts: z.union([z.boolean(), z.stringbool()]).default(false),
    /**
     * Images of this machine that every project may use without a registry: `NAME`, `NAME:TAG`, `PREFIX/*`, or `*` for
     * all.
     */
    localImages: List.default([]),
    /** Protocols by which sources may be fetched, besides https and ssh. */
    gitProtocols: List.pipe(z.array(z.enum(['http', 'file']))).default([]),
    /** Folders below which `file://` repositories are allowed. */
    gitFileRoots: List.default([]),
    /** Whether repositories on this machine may be fetched. */
    gitLoopback: z.union([z.boolean(), z.stringbool()]).default(false),
    /** Private networks from which repositories may be fetched, `10.0.0.0/8`. */
    gitPrivateNetworks: List.pipe(z.array(z.union([z.cidrv4(), z.cidrv6()]))).default([]),
    /** Most bytes that are fetched for a build; its files may have twice as many. Default: 2 GiB. */
    gitMaxBytes: z.coerce.number().int().min(1).optional(),
    /** Configuration file of ssh for fetching sources: key, known hosts. */
    sshConfig: z.string().optional(),
    /** Folder with dumps that admins may import; by default `imports` in the folder of the data. */
    imports: z.string().optional(),
    /** Networks that dumps may be fetched from beside public addresses, also by http, `10.0.0.0/8`. */
    importNetworks: List.pipe(z.array(z.union([z.cidrv4(), z.cidrv6()]))).default([]),
    /** Folder of the installation that a supervisor runs; absent in a checkout. */
    agentHome: z.string().optional(),
    /** Whether superadmins, and admins where the tenant allows it, may open a shell on this machine. */
    serverTerminals: z.union([z.boolean(), z.stringbool()]).default(true),
    logLevel: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace']).default('info'),
  })
  .refine(({ server, allowPlainHttp }) => allowPlainHttp || server.every(isPrivate), {
    path: ['server'],
    message:
      'Must be https: with http, others on the network can read the join token and the secrets of workloads, and replace the control plane. ' +
      'On a private network that you trust, allow http by --allow-plain-http',
  });
export type AgentConfig = z.output<typeof AgentConfig>;
