import { z } from 'zod';
import { readAdminFile } from './admin-file.ts';

const Fault = z.object({ error: z.object({ message: z.string() }) });

/** Calls an endpoint for the operator on the server of this machine. @throws Error with the server's message */
export async function clusterRequest(dataDir: string, method: string, path: string, body?: unknown): Promise<unknown> {
  const { url, token } = await readAdminFile(dataDir);
  const response = await fetch(`${url}/cluster/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(30_000),
  });
  const answer: unknown = await response.json();
  if (response.ok) return answer;
  const fault = Fault.safeParse(answer);
  throw new Error(
    fault.success ? fault.data.error.message : `The server answered ${response.status}: its log has the cause`,
  );
}
