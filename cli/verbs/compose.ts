import { z } from 'zod';
import type { Client } from '../client.ts';
import { contentOf } from '../file-content.ts';
import { printed } from '../printed.ts';
import { table } from '../table.ts';

const Finding = z.object({ line: z.int(), column: z.int(), message: z.string() });
const Report = z.object({
  valid: z.boolean(),
  errors: z.array(Finding),
  warnings: z.array(Finding),
  services: z.array(
    z.looseObject({
      name: z.string(),
      image: z.string().nullable(),
      replicas: z.int(),
      restart_policy: z.string(),
      ports: z.array(z.object({ port: z.int(), publish: z.int().nullable() })),
      depends_on: z.array(z.object({ service: z.string() })),
    }),
  ),
});

export interface ComposeOptions {
  env?: Record<string, string>;
  inRepository?: boolean;
  output?: string;
}

/** Prints what a compose file declares, and what of it is refused or means something else. Exits with 1 if it is refused. */
export async function compose(
  client: Client,
  action: string,
  file: string,
  { env = {}, inRepository = false, output = 'text' }: ComposeOptions,
): Promise<void> {
  if (action !== 'check') throw new Error(`Unknown action ${action}: use check`);
  const body = { content: await contentOf(file), env, in_repository: inRepository };
  const report = Report.parse(await client.request('POST', '/api/v1/compose/validate', body));
  if (!report.valid) process.exitCode = 1;
  if (output !== 'text') {
    console.log(await printed(report, output));
    return;
  }
  for (const [word, findings] of [
    ['error', report.errors],
    ['warning', report.warnings],
  ] as const)
    for (const { line, column, message } of findings) console.log(`${file}:${line}:${column}: ${word}: ${message}`);
  if (!report.valid) return;
  if (report.warnings.length > 0) console.log('');
  console.log(
    table(
      ['service', 'image', 'replicas', 'ports', 'depends on', 'restart'],
      report.services.map((it) => [
        it.name,
        it.image ?? 'built',
        String(it.replicas),
        it.ports.map(({ port, publish }) => (publish === null ? String(port) : `${publish}:${port}`)).join(' '),
        it.depends_on.map(({ service }) => service).join(' '),
        it.restart_policy,
      ]),
    ),
  );
}
