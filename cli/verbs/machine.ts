import { z } from 'zod';
import type { Client } from '../client.ts';
import { findObject, pathOf } from '../objects.ts';
import { Diagnosis, print } from './diagnose.ts';

const HostKey = z.object({ type: z.string(), fingerprint: z.string(), is_pinned: z.boolean() });
const Pong = z.object({ latency_ms: z.number() });
const Report = z.object({ ...Diagnosis.shape, host_key: HostKey.nullable() });

/** Prints whether the machine of a server can be used. The process exits with 1 if it cannot. */
export async function validate(client: Client, name: string, { output = 'text' }: { output?: string }): Promise<void> {
  const server = await findObject(client, 'servers', name);
  const report = Report.parse(await client.request('POST', `${pathOf('servers', server)}/validate`, {}));
  await print(report, output, undefined);
}

/** Asks the agent of a server for a sign of life. @throws Error if it gives none */
export async function ping(client: Client, name: string): Promise<void> {
  const server = await findObject(client, 'servers', name);
  const answer = Pong.parse(await client.request('POST', `${pathOf('servers', server)}/ping`, {}));
  console.log(`The agent of ${name} answers, after ${answer.latency_ms} ms`);
}

/** Pins another host key of a server. */
export async function trustHostKey(
  client: Client,
  name: string,
  fingerprint: string,
  { type }: { type?: string },
): Promise<void> {
  const server = await findObject(client, 'servers', name);
  await client.request('POST', `${pathOf('servers', server)}/trust-host-key`, {
    fingerprint,
    ...(type !== undefined && { type }),
  });
  console.log(
    `The host key of ${name} is ${fingerprint} from now on: setpoint validate ${name} tries it, and so does a provisioning that has failed`,
  );
}
