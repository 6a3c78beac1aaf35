import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { stripTypeScriptTypes } from 'node:module';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A file as it is sent to the browser. */
export interface ConsoleFile {
  body: Buffer;
  type: string;
  etag: string;
}

const root = new URL('../../', import.meta.url);
/** Folders whose files the browser gets, and where they are below `/console/`. */
const folders: Readonly<Record<string, string>> = { 'web/': '', 'rules/': 'rules/' };
const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.ts': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
};
/** Modules that the console imports from packages. */
const libraries: Readonly<Record<string, string>> = {
  'lib/preact.mjs': 'preact',
  'lib/hooks.mjs': 'preact/hooks',
  'lib/htm.mjs': 'htm',
};

/**
 * The files of the console by their path below `/console/`, read once, at the first request. The browser runs the
 * sources as they are written: types are stripped, nothing is bundled.
 */
export function createConsole(): (path: string) => Promise<ConsoleFile | undefined> {
  let files: Promise<ReadonlyMap<string, ConsoleFile>> | undefined;
  return async (path) => {
    files ??= readFiles();
    return (await files).get(path);
  };
}

async function readFiles(): Promise<Map<string, ConsoleFile>> {
  const own = await Promise.all(Object.entries(folders).map(([folder, at]) => readFolder(new URL(folder, root), at)));
  const others = Object.entries(libraries).map(
    async ([name, specifier]) =>
      [name, toFile(name, await readFile(fileURLToPath(import.meta.resolve(specifier))))] as const,
  );
  return new Map([...own.flat(), ...(await Promise.all(others))]);
}

async function readFolder(folder: URL, at: string): Promise<(readonly [path: string, file: ConsoleFile])[]> {
  const names = await readdir(folder, { recursive: true });
  const served = names.filter((name) => types[extname(name)] !== undefined && !name.endsWith('.d.ts'));
  return Promise.all(served.map(async (name) => [at + name, await readOwn(folder, name)] as const));
}

async function readOwn(folder: URL, name: string): Promise<ConsoleFile> {
  const text = await readFile(new URL(name, folder), 'utf8');
  return toFile(name, Buffer.from(name.endsWith('.ts') ? stripTypeScriptTypes(text) : text));
}

function toFile(name: string, body: Buffer): ConsoleFile {
  const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`;
  return { body, type: types[extname(name)] ?? 'application/octet-stream', etag };
}

/** A policy by which the page may run its inline scripts and those of this server, and may connect to nothing else. */
export function consolePolicy(page: ConsoleFile): string {
  const inside = page.body.toString().matchAll(/<script(?: type="importmap")?>([^]*?)<\/script>/g);
  const hashes = [...inside].map(([, text = '']) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`);
  return [
    "default-src 'none'",
    `script-src 'self' ${hashes.join(' ')}`,
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self' data:",
    "form-action 'none'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
}
