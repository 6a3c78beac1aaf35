import { writeFile } from 'node:fs/promises';
import { z } from 'zod';
import type { Client } from '../client.ts';
import { findObject } from '../objects.ts';

const Generated = z.object({
  dockerfile: z.string(),
  ignore: z.array(z.string()),
  reasons: z.array(z.string()),
  commit: z.string(),
});

/** Prints the Dockerfile that a build would generate, its reasons apart, or writes it to a file. */
export async function dockerfile(
  client: Client,
  name: string,
  options: { project?: string; output?: string },
): Promise<void> {
  const app = await findObject(client, 'applications', name, options.project);
  const made = Generated.parse(await client.request('POST', `/api/v1/applications/${app.id}/dockerfile`, {}));
  for (const reason of made.reasons) console.error(reason);
  console.error(`Left out of the build, as by .dockerignore: ${made.ignore.join(' ')}`);
  if (options.output === undefined) {
    for (const line of made.dockerfile.trimEnd().split('\n')) console.log(line);
    return;
  }
  await writeFile(options.output, made.dockerfile, { flag: 'wx' }).catch((error: NodeJS.ErrnoException) => {
    const why = error.code === 'EEXIST' ? 'it exists already: name another one, or remove it' : error.message;
    throw new Error(`Cannot write ${options.output ?? ''}: ${why}`, { cause: error });
  });
  console.log(
    `${options.output} is written, for commit ${made.commit.slice(0, 8)}: commit it and set dockerfile_path to its path`,
  );
}
