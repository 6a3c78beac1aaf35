import { z } from 'zod';
import type { Client } from '../client.ts';
import { table } from '../table.ts';

const bounds = ['stored_bytes', 'written_bytes_per_minute', 'objects', 'build_minutes_per_day'] as const;
const Numbers = z.record(z.enum(bounds), z.number().nullable());
const Limits = z.object({
  scopes: z.array(z.object({ scope: z.string(), name: z.string().nullable(), used: Numbers, allowed: Numbers })),
});

/** Prints use and bounds of the caller's account and visible projects; for admins also of tenant and installation. */
export async function limits(client: Client): Promise<void> {
  const { scopes } = Limits.parse(await client.request('GET', '/api/v1/limits'));
  console.log(
    table(
      ['scope', 'name', 'stored', 'written per minute', 'objects', 'build minutes per day'],
      scopes.map(({ scope, name, used, allowed }) => [
        scope,
        name ?? '',
        ...bounds.map((bound) => `${shown(bound, used[bound])} of ${shown(bound, allowed[bound])}`),
      ]),
    ),
  );
}

function shown(bound: (typeof bounds)[number], value: number | null): string {
  if (value === null) return 'any';
  return bound.includes('bytes') ? `${Math.round(value / 104_857.6) / 10} MiB` : String(value);
}
