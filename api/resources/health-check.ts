import { z } from 'zod';
import { HealthCheck } from '../../store/kinds/application.ts';
import { HttpPath } from './fields.ts';

const [http, tcp, command, image, none] = HealthCheck.options;

const Word = z
  .string()
  .max(4096)
  .refine((text) => !text.includes('\0'), 'Must not contain a zero byte');

/** What may be in the header `Host`: a name or an address, with a port where the server expects one. */
const HostHeader = z
  .string()
  .max(255)
  .regex(/^[A-Za-z0-9._:[\]-]+$/, 'Must be a host name or an address, such as app.example.com');

/** A health check: the settings of its type, and no others. */
export const HealthCheckField = z
  .discriminatedUnion('type', [
    http.extend({ path: HttpPath, host: HostHeader.optional() }).strict(),
    tcp.strict(),
    command.extend({ command: z.array(Word).min(1).max(64) }).strict(),
    image.strict(),
    none.strict(),
  ])
  .meta({
    id: 'HealthCheck',
    description: 'How an instance shows that it is ready. Absent settings have the defaults of the agent',
  });

/** Names that compose files and engines have for settings, with ours. */
const otherNames = {
  interval: 'interval_seconds',
  timeout: 'timeout_seconds',
  start_period: 'start_seconds',
  retries: 'failures',
} as const;

/** A health check as it is sent: a setting may have the name that compose files have for it, in seconds. */
export const SentHealthCheck = z.preprocess((sent) => {
  if (typeof sent !== 'object' || sent === null || Array.isArray(sent)) return sent;
  const given = new Map<string, unknown>(Object.entries(sent));
  for (const [other, name] of Object.entries(otherNames)) {
    // both names at once are refused
    if (!given.has(other) || given.has(name)) continue;
    given.set(name, given.get(other));
    given.delete(other);
  }
  return Object.fromEntries(given);
}, HealthCheckField);
