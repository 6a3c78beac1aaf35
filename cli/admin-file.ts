import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';

/** How the operator of this machine reaches the running control plane, for what belongs to no tenant. */
const AdminFile = z.object({ url: z.url(), token: z.string() });
type AdminFile = z.infer<typeof AdminFile>;

const name = 'admin.json';

/** Writes the file at each start of the server, readable for its user only. */
export async function writeAdminFile(dataDir: string, content: AdminFile): Promise<void> {
  const path = join(dataDir, name);
  const partial = `${path}.${process.pid}`;
  await writeFile(partial, `${JSON.stringify(content)}\n`, { mode: 0o600 });
  await rename(partial, path);
}

/** @throws Error with what must run for the file to exist, or which user may read it. */
export async function readAdminFile(dataDir: string): Promise<AdminFile> {
  const path = join(dataDir, name);
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    throw new Error(whyUnread(path, error), { cause: error });
  });
  return AdminFile.parse(JSON.parse(text));
}

function whyUnread(path: string, error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
  if (code === 'ENOENT') return `There is no ${path}: run this beside a server, with the --data of a running server`;
  if (code === 'EACCES') return `Cannot read ${path}, which the server's user and root may: run this as root`;
  return `Cannot read ${path} (${code}): run this as root, with the --data of a running server`;
}
