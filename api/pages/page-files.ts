import { createHash } from 'node:crypto';
import { extname } from 'node:path';
import { promisify } from 'node:util';
import { gzip as gzipOf } from 'node:zlib';

const gzip = promisify(gzipOf);

/** A file of a page as it is sent to the browser. */
export interface PageFile {
  body: Buffer;
  /** The same, compressed. */
  packed: Buffer;
  type: string;
  etag: string;
  /** True if the file has its content in its name, so that a browser need not ask for it again. */
  isNamedByContent: boolean;
}

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.map': 'application/json; charset=utf-8',
};

/** Where the files of a page come from. */
interface Source {
  /** Makes them: texts by their path below the page, with the page itself as `index.html`. */
  make: () => Promise<ReadonlyMap<string, string>>;
  /** The page that is sent where they cannot be made. */
  without: string;
  onFault: (error: unknown) => void;
}

/**
 * The files of a page by their path below it, made once, at the first request, and kept in memory. Where they cannot be
 * made, the only file is a page that says so, and `onFault` gets the reason.
 */
export function createPageFiles({ make, without, onFault }: Source): (path: string) => Promise<PageFile | undefined> {
  let files: Promise<ReadonlyMap<string, PageFile>> | undefined;
  const made = async (): Promise<ReadonlyMap<string, PageFile>> => {
    const texts = await make().catch((error: unknown) => {
      onFault(error);
      return new Map([['index.html', without]]);
    });
    return new Map(
      await Promise.all([...texts].map(async ([path, text]) => [path, await toFile(path, text)] as const)),
    );
  };
  return async (path) => {
    files ??= made();
    return (await files).get(path);
  };
}

/** The page that is sent in place of one whose packages are not installed. `title`: what cannot be shown. */
export function pageWithout(title: string, elsewhere: string): string {
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <title>No ${title} · Setpoint</title>
  </head>
  <body>
    <h1>This server cannot show the ${title}</h1>
    <p>Its packages could not be loaded. Install those for development, too (<code>npm ci</code>), and restart it.</p>
    <p>The reason is in the log of the server. ${elsewhere}</p>
  </body>
</html>
`;
}

async function toFile(path: string, text: string): Promise<PageFile> {
  const body = Buffer.from(text);
  const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`;
  const type = types[extname(path)] ?? 'application/octet-stream';
  return { body, packed: await gzip(body), type, etag, isNamedByContent: path !== 'index.html' };
}

/** A policy by which the page may run its inline script and those of this server, and may connect to nothing else. */
export function pagePolicy(page: PageFile): string {
  const inside = page.body.toString().matchAll(/<script>([^]*?)<\/script>/g);
  const hashes = [...inside].map(([, text = '']) => ` 'sha256-${createHash('sha256').update(text).digest('base64')}'`);
  return [
    "default-src 'none'",
    `script-src 'self'${hashes.join('')}`,
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self' data:",
    "form-action 'none'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
}
