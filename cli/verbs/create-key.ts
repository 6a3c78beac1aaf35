import { z } from 'zod';
import type { Client } from '../client.ts';
import { findObject } from '../objects.ts';

const NewKey = z.object({ key: z.string() });

interface Options {
  project?: string;
  scope?: string[];
  expires?: string;
}

/** Creates a service key and prints only the key, so that a script can read it. It is shown only here. */
export async function createServiceKey(client: Client, name: string, options: Options): Promise<void> {
  const project = options.project === undefined ? undefined : await findObject(client, 'projects', options.project);
  const created = await client.request('POST', '/api/v1/settings/service-keys', {
    name,
    ...(options.scope !== undefined && { scopes: options.scope }),
    ...(options.expires !== undefined && { expires_at: options.expires }),
    ...(project !== undefined && { project_id: project.id }),
  });
  console.log(NewKey.parse(created).key);
}
