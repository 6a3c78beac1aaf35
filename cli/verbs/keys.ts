import { z } from 'zod';
import { clusterRequest } from '../cluster-request.ts';
import { table } from '../table.ts';

const Keys = z.object({ data: z.array(z.object({ kid: z.string(), created_at: z.string() })) });

export async function listKeys(dataDir: string): Promise<void> {
  print(Keys.parse(await clusterRequest(dataDir, 'GET', '/signing-keys')));
}

/** Signs with a new key from now on. The older keys verify until their last token has expired. */
export async function rotateKeys(dataDir: string): Promise<void> {
  print(Keys.parse(await clusterRequest(dataDir, 'POST', '/signing-keys/rotate')));
}

function print({ data }: z.infer<typeof Keys>): void {
  const rows = data.map(({ kid, created_at }, at) => [kid, created_at, at === data.length - 1 ? 'signs' : 'verifies']);
  console.log(table(['key', 'created', 'use'], rows));
}
