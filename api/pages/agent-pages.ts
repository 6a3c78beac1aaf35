import type { FileHandle } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import type { Logger } from 'pino';
import type { Clock } from '../../time/clock.ts';
import type { AgentRelease, AgentReleases, ReleaseFile } from '../ground/agent-release.ts';
import { ApiError, tooMany } from '../ground/api-error.ts';
import type { ApiConfig } from '../ground/config.ts';
import { createClientAddress } from '../http/client-address.ts';
import { errorBody, sendBody } from '../http/respond.ts';
import type { Headers } from '../http/respond.ts';
import { installScript } from './install-script.ts';
import { takesGzip } from '../http/packed.ts';

/** Downloads of executables at once, of all clients and of one address: an office may be behind one. */
const limits = { downloads: 64, perAddress: 16 } as const;
const stallMs = 60_000;
const deadlineMs = 60 * 60_000;

interface Dependencies {
  releases: AgentReleases;
  config: ApiConfig;
  clock: Clock;
  log: Logger;
}

type Page = (response: ServerResponse, headers: Headers, requestId: string) => Promise<void>;

/**
 * Pages by which machines get the agent: the script that installs it, the signed manifest of the release, and the files
 * that it names. Returns `undefined` for any other path.
 */
export function createAgentPages(deps: Dependencies): (path: string, request: IncomingMessage) => Page | undefined {
  const { releases, config } = deps;
  const download = createDownload(deps);
  const page =
    (send: (release: AgentRelease, response: ServerResponse, headers: Headers) => Promise<void> | void): Page =>
    async (response, headers, requestId) => {
      try {
        const release = await releases.current();
        if (release === undefined) throw noRelease();
        await send(release, response, headers);
      } catch (error) {
        if (!(error instanceof ApiError) || response.headersSent) throw error;
        const retry = error.retryAfter === undefined ? {} : { 'retry-after': error.retryAfter };
        sendBody(response, error.status, { ...headers, ...retry }, errorBody(error, requestId));
      }
    };
  const script = page(async ({ manifest }, response, headers) =>
    sendBody(
      response,
      200,
      headers,
      await installScript(manifest, config.publicUrl),
      'text/x-shellscript; charset=utf-8',
    ),
  );
  const manifest = page(({ signed }, response, headers) => sendBody(response, 200, headers, signed));
  return (path, request) => {
    if (path === '/install.sh') return script;
    if (path === '/agent/manifest') return manifest;
    if (!/^\/agent\/setpoint-agent-[^/]+$/.test(path)) return undefined;
    return page(async (release, response, headers) => {
      const { files, licences } = release.manifest;
      const all: ReleaseFile[] = licences === undefined ? files : [...files, licences];
      const file = all.find(({ name }) => path === `/agent/${name}`);
      if (file === undefined) throw otherRelease(release);
      await download(file, request, response, headers);
    });
  };
}

function noRelease(): ApiError {
  return new ApiError(
    'NOT_FOUND',
    'This control plane has no release of the agent: its operator builds one by make release',
  );
}

function otherRelease({ manifest: { version, files } }: AgentRelease): ApiError {
  return new ApiError(
    'NOT_FOUND',
    `No such file: this control plane has the agent ${version} for ${files.map((it) => it.platform).join(', ')}. Get the script or the manifest again`,
  );
}

function createDownload({ releases, config, clock, log }: Dependencies) {
  const addressOf = createClientAddress(config.trustedProxies);
  const underWay = new Map<string, number>();
  let all = 0;
  const count = (address: string, change: 1 | -1): void => {
    all += change;
    const left = (underWay.get(address) ?? 0) + change;
    if (left === 0) underWay.delete(address);
    else underWay.set(address, left);
  };
  return async (
    file: ReleaseFile,
    request: IncomingMessage,
    response: ServerResponse,
    headers: Headers,
  ): Promise<void> => {
    const address = addressOf(request);
    if (all >= limits.downloads || (underWay.get(address) ?? 0) >= limits.perAddress)
      throw tooMany('Too many downloads of the agent at once: try again', 30);
    count(address, 1);
    const stop = new AbortController();
    const cancel = clock.timer(deadlineMs, () => stop.abort());
    try {
      await using packed = takesWholeGzip(request) ? await releases.openPacked(file) : undefined;
      if (packed !== undefined) await sendPacked(packed, { file, request, response, headers }, stop.signal);
      else {
        await using handle = await releases.open(file);
        await sendFile(handle, { file, request, response, headers }, stop.signal);
      }
    } catch (error) {
      if (error instanceof ApiError) throw error;
      response.destroy();
      log.info({ err: error, file: file.name, address }, 'A download of the agent was cut off');
    } finally {
      cancel();
      count(address, -1);
    }
  };
}

interface Asked {
  file: ReleaseFile;
  request: IncomingMessage;
  response: ServerResponse;
  headers: Headers;
}

const common = { 'content-type': 'application/octet-stream', vary: 'accept-encoding' };

async function sendFile(
  handle: FileHandle,
  { file, request, response, headers }: Asked,
  signal: AbortSignal,
): Promise<void> {
  const etag = `"${file.sha256}"`;
  const range = rangeOf(request, etag, file.size);
  if (range === 'beyond') {
    sendBody(response, 416, { ...headers, 'content-range': `bytes */${file.size}` }, '', common['content-type']);
    return;
  }
  const { start, last } = range ?? { start: 0, last: file.size - 1 };
  response.writeHead(range === undefined ? 200 : 206, {
    ...headers,
    ...common,
    'content-length': last - start + 1,
    'accept-ranges': 'bytes',
    etag,
    ...(range !== undefined && { 'content-range': `bytes ${start}-${last}/${file.size}` }),
  });
  await send(handle, { start, last }, request, response, signal);
}

async function sendPacked(
  handle: FileHandle,
  { file, request, response, headers }: Asked,
  signal: AbortSignal,
): Promise<void> {
  const { size } = await handle.stat();
  response.writeHead(200, {
    ...headers,
    ...common,
    'content-encoding': 'gzip',
    'content-length': size,
    etag: `"${file.sha256}-gzip"`,
  });
  await send(handle, { start: 0, last: size - 1 }, request, response, signal);
}

async function send(
  handle: FileHandle,
  { start, last }: { start: number; last: number },
  request: IncomingMessage,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  if (request.method === 'HEAD') {
    response.end();
    return;
  }
  response.setTimeout(stallMs, () => response.destroy());
  const content = handle.createReadStream({ start, end: last, autoClose: false, highWaterMark: 256 * 1024 });
  await pipeline(content, response, { signal });
}

/** Whether the whole file may be sent as gzip; a part of it is always one of the file itself. */
function takesWholeGzip({ headers }: IncomingMessage): boolean {
  return headers.range === undefined && takesGzip(headers);
}

/** The part of a file that is asked for; `undefined`: all of it, also for forms of the header that are not served. */
function rangeOf(
  { headers }: IncomingMessage,
  etag: string,
  size: number,
): { start: number; last: number } | 'beyond' | undefined {
  const condition = headers['if-range'];
  const [, first, end] = /^bytes=(\d{1,12})-(\d{0,12})$/.exec(headers.range ?? '') ?? [];
  if (first === undefined || (condition !== undefined && condition !== etag)) return undefined;
  const start = Number(first);
  if (start >= size) return 'beyond';
  const last = end === '' || end === undefined ? size - 1 : Math.min(Number(end), size - 1);
  return last < start ? undefined : { start, last };
}
