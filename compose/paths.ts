/**
 * The path of a file in a repository, which the text names from `folder` of it: without `./`, `..` and doubled slashes.
 * `undefined` for one that leads out of the repository, is absolute, or is none.
 */
export function insideRepository(text: string, folder = '.'): string | undefined {
  if (text.length > 255 || /[\p{Cc}\p{Cf}\\]/u.test(text) || /^[/~-]/.test(text)) return undefined;
  const parts: string[] = [];
  for (const part of [...folder.split('/'), ...text.split('/')]) {
    if (part === '..' && parts.pop() === undefined) return undefined;
    if (part !== '' && part !== '.' && part !== '..') parts.push(part);
  }
  const path = parts.join('/') || '.';
  return path.length > 255 ? undefined : path;
}

/** The folder of a file in a repository. */
export function folderOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/'))) || '.';
}

/** An absolute path in a container, in none of the folders that the kernel makes there. */
export function inContainer(text: string): string | undefined {
  const path = text.replaceAll(/\/{2,}/g, '/').replace(/\/$/, '');
  if (path.length > 255 || !/^(?:\/(?!\.{1,2}(?:\/|$))[A-Za-z0-9._@+-]+)+$/.test(path)) return undefined;
  return /^\/(?:proc|sys|dev)(?:\/|$)/.test(path) ? undefined : path;
}
