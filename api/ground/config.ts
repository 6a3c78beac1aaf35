import { z } from 'zod';
import { DatabaseType } from '../../store/kinds/database.ts';
import { FunctionRuntime } from '../../store/kinds/function.ts';

/** Requests per minute, and how many of them may come at once. 0 per minute switches the limit off. */
const Limit = z.strictObject({ perMinute: z.int().min(0), burst: z.int().min(1) });
export type Limit = z.infer<typeof Limit>;

/** 90 days. */
export const defaultSigningKeyLifeMs = 90 * 86_400_000;

/** Configuration of the API. */
export const ApiConfig = z.strictObject({
  /** Sent as `x-service-version`. */
  version: z.string(),
  /** URL under which users and agents reach this installation, without tenant and without a slash at the end. */
  publicUrl: z.url(),
  /** Whether agents on other machines may reach it without TLS. */
  allowPlainHttp: z.boolean().default(false),
  /** Host names that are answered, besides addresses and `localhost`; absent, or with `*`: every name. */
  allowedHosts: z.array(z.string()).optional(),
  /** Addresses or CIDR ranges of proxies whose `X-Forwarded-For` is trusted. */
  trustedProxies: z.array(z.string()).default([]),
  /** Folder with the release of the agent that machines get from here, as `make release` fills it. */
  agentRelease: z.string().optional(),
  /** Ports of the control plane itself: no application may take them. */
  ownPorts: z.array(z.int()).default([]),
  /** Addresses or CIDR ranges that may read the metrics, which name all tenants; by default this machine. */
  metricsFrom: z.array(z.string()).default(['127.0.0.0/8', '::1']),
  /** Age at which the key that signs tokens is replaced. */
  signingKeyLifeMs: z.int().default(defaultSigningKeyLifeMs),
  /** What the first user of a tenant must present: one token for all tenants, or a derived one for each. */
  setupToken: z
    .union([z.strictObject({ value: z.string().min(16) }), z.strictObject({ own: z.literal(true) })])
    .optional(),
  /** Images of database engines by type, in place of the official ones; `{version}` in one is that of the database. */
  engineImages: z.partialRecord(DatabaseType, z.string()).default({}),
  /** Images that functions are built upon by runtime, in place of the official ones. */
  runtimeImages: z.partialRecord(FunctionRuntime, z.string()).default({}),
  /** Below it each server gets a domain of its own when its ingress is enabled; absent: none. */
  wildcardDomain: z.string().optional(),
  rateLimit: Limit.default({ perMinute: 6000, burst: 1000 }),
  heavyRateLimit: Limit.default({ perMinute: 300, burst: 100 }),
  /** Requests for one-time codes of one client address. */
  codeRateLimit: Limit.default({ perMinute: 1, burst: 30 }),
  /** Time limit of a build; a build under way counts as this long. */
  buildDeadlineMs: z
    .int()
    .min(1)
    .default(30 * 60_000),
  streamsPerUser: z.int().min(0).default(200),
  /** How long requests may finish when the server closes; then their connections are cut. */
  drainMs: z.int().min(0).default(10_000),
});
export type ApiConfig = z.infer<typeof ApiConfig>;
