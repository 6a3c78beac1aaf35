import { z } from 'zod';

const List = z.string().transform((text) => text.split(',').filter((it) => it !== ''));

/** Everything that an agent can be told. Each is a flag, and `SETPOINT_…` in the environment. */
export const AgentConfig = z.object({
  /** Base address of the control plane with its tenant, `https://setpoint.example.com/default`; several: its replicas. */
  server: List.pipe(z.tuple([z.url()], z.url())),
  /** Needed once; afterwards the agent has its own identity. */
  token: z.string().optional(),
  data: z.string().default('/var/lib/setpoint/agent'),
  runtime: z.enum(['docker', 'mock']).default('docker'),
  dockerSocket: z.string().default('/var/run/docker.sock'),
  /** Where the engine keeps images and containers: nothing is built or pulled when little space is left there. */
  dockerRoot: z.string().default('/var/lib/docker'),
  /** Protocols that sources may be fetched by, beside https and ssh. */
  gitProtocols: List.pipe(z.array(z.enum(['http', 'file']))).default([]),
  /** Folders below which repositories may be taken by `file://`. */
  gitFileRoots: List.default([]),
  /** Whether repositories may be fetched from this machine itself. */
  gitLoopback: z.union([z.boolean(), z.stringbool()]).default(false),
  /** Configuration of ssh for fetching sources: key, known hosts. */
  sshConfig: z.string().optional(),
  logLevel: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace']).default('info'),
});
export type AgentConfig = z.output<typeof AgentConfig>;
