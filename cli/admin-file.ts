import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';

/** How the machine's operator reaches the running control plane for what belongs to no tenant. */
export const AdminFile = z.object({ url: z.url(), token: z.string() });
export type AdminFile = z.infer<typeof AdminFile>;

const name = 'admin.json';

/** Written by each start of the server, for root alone. */
export async function writeAdminFile(dataDir: string, content: AdminFile): Promise<void> {
  const path = join(dataDir, name);
  const partial = `${path}.${process.pid}`;
  await writeFile(partial, `${JSON.stringify(content)}\n`, { mode: 0o600 });
  await rename(partial, path);
}

/** @throws Error that says what must run for the file to be there. */
export async function readAdminFile(dataDir: string): Promise<AdminFile> {
  const path = join(dataDir, name);
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    throw new Error(`Cannot read ${path}: run this as the server's user, with the --data of a running server`, {
      cause: error,
    });
  });
  return AdminFile.parse(JSON.parse(text));
}
