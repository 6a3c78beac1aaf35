import { z } from 'zod';
import type { Client } from '../client.ts';
import { findObject, pathOf } from '../objects.ts';
import { printed } from '../printed.ts';
import { table } from '../table.ts';

export const Diagnosis = z.object({
  status: z.string(),
  checks: z.array(
    z.object({
      name: z.string(),
      status: z.string(),
      message: z.string(),
      remediation: z.string().nullable(),
      auto_fixable: z.boolean(),
    }),
  ),
});
const Healing = z.object({
  status: z.string(),
  actions: z.array(
    z.object({ check: z.string(), status: z.string(), target: z.string().nullable(), message: z.string() }),
  ),
});

/** Prints what the checks of a server found; without a name, those of the control plane. Exits with 1 if one failed. */
export async function diagnose(
  client: Client,
  name: string | undefined,
  { output }: { output?: string },
): Promise<void> {
  if (name === undefined) {
    await show(client, '/api/v1/system/diagnose', output ?? 'text', undefined);
    return;
  }
  const server = await findObject(client, 'servers', name);
  await show(client, `${pathOf('servers', server)}/diagnose`, output ?? 'text', name);
}

async function show(client: Client, path: string, output: string, healed: string | undefined): Promise<void> {
  await print(Diagnosis.parse(await client.request('GET', path)), output, healed);
}

/** Prints what was found, and what to do. `healed`: the server that Setpoint can heal of it. */
export async function print(
  found: z.infer<typeof Diagnosis>,
  output: string,
  healed: string | undefined,
): Promise<void> {
  if (output !== 'text') console.log(await printed(found, output));
  else {
    console.log(
      table(
        ['check', 'status', 'message'],
        found.checks.map((it) => [it.name, it.status, it.message]),
      ),
    );
    const open = found.checks.filter(({ remediation }) => remediation !== null);
    if (open.length > 0) console.log('');
    for (const { name, remediation } of open) console.log(`${name}: ${remediation}`);
    const healable = open.filter((it) => it.auto_fixable).map((it) => it.name);
    if (healed !== undefined && healable.length > 0)
      console.log(`\nSetpoint can heal ${healable.join(', ')}: setpoint heal ${healed}`);
  }
  if (found.status === 'fail') process.exitCode = 1;
}

/** Heals what the checks of a server found, and prints what was done. The process exits with 1 if something failed. */
export async function heal(
  client: Client,
  name: string,
  { check, output = 'text' }: { check?: string[]; output?: string },
): Promise<void> {
  const server = await findObject(client, 'servers', name);
  const body = check === undefined ? {} : { checks: check };
  const healing = Healing.parse(await client.request('POST', `${pathOf('servers', server)}/heal`, body));
  const { status, actions } = healing;
  if (output !== 'text') console.log(await printed(healing, output));
  else if (status === 'running') console.log(`It goes on: setpoint diagnose ${name} shows what is left`);
  else if (actions.length === 0) console.log('There is nothing to heal');
  else
    console.log(
      table(
        ['check', 'status', 'target', 'message'],
        actions.map((it) => [it.check, it.status, it.target ?? '', it.message]),
      ),
    );
  if (actions.some((it) => it.status === 'failed')) process.exitCode = 1;
}
