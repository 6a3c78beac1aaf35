import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Registry } from 'prom-client';
import { forbidden, notFound } from '../ground/api-error.ts';
import type { ApiError } from '../ground/api-error.ts';
import type { ApiConfig } from '../ground/config.ts';
import type { AgentReleases } from '../ground/agent-release.ts';
import type { Clock } from '../../time/clock.ts';
import type { Logger } from 'pino';
import { createAgentPages } from './agent-pages.ts';
import { consoleFiles } from './console-files.ts';
import { docsFiles } from './docs-files.ts';
import { endpointsByArea } from '../routes/endpoints.ts';
import { createMetricsAccess } from './operator-access.ts';
import { createPageFiles, pagePolicy, pageWithout } from './page-files.ts';
import { packed, takesGzip } from '../http/packed.ts';
import { errorBody, sendBody } from '../http/respond.ts';
import type { Headers } from '../http/respond.ts';

interface Dependencies {
  registry: Registry;
  config: ApiConfig;
  releases: AgentReleases;
  clock: Clock;
  log: Logger;
  /** Why this replica is not ready; `undefined` if it is ready. */
  readiness(): Promise<ApiError | undefined>;
}

type Page = (response: ServerResponse, headers: Headers, requestId: string) => Promise<void> | void;

/**
 * Pages that belong to no tenant: health, metrics, documentation, the console and the agent's release. Returns `undefined` for any other
 * path.
 */
export function createSystemPages(deps: Dependencies): (request: IncomingMessage) => Page | undefined {
  let document: Promise<Buffer> | undefined;
  const makeDocument = async (): Promise<Buffer> => {
    const { openApiDocument } = await import('./openapi.ts'); // few replicas are asked for it
    return Buffer.from(JSON.stringify(openApiDocument(endpointsByArea, deps.config)));
  };
  const documentPage =
    (isPacked: boolean): Page =>
    async (response, headers) => {
      const text = await (document ??= makeDocument());
      const form = isPacked ? await packed(text) : undefined;
      const encoding = form === undefined ? {} : { 'content-encoding': 'gzip' };
      sendBody(response, 200, { ...headers, vary: 'accept-encoding', ...encoding }, form ?? text);
    };

  let schemas: Promise<ReadonlyMap<string, string>> | undefined;
  const readSchemas = async (): Promise<ReadonlyMap<string, string>> => {
    const { declaredJsonSchemas } = await import('./schemas.ts'); // as above
    return declaredJsonSchemas();
  };
  const schemaPage =
    (file: string): Page =>
    async (response, headers, requestId) => {
      const schema = (await (schemas ??= readSchemas())).get(file);
      if (schema === undefined) sendNoSuchPage(response, headers, requestId);
      else sendBody(response, 200, headers, schema, 'application/schema+json');
    };

  const mayReadMetrics = createMetricsAccess(deps.config);
  const agentPage = createAgentPages(deps);
  const consoleFile = createPageFiles({
    make: consoleFiles,
    without: pageWithout('console', 'Everything else works: <code>setpoint get applications</code>'),
    onFault: (error) => deps.log.error({ err: error }, 'the console cannot be made'),
  });
  const docsFile = createPageFiles({
    make: docsFiles,
    without: pageWithout('reference of the API', 'Its document is there: <a href="openapi.json">openapi.json</a>'),
    onFault: (error) => deps.log.error({ err: error }, 'the reference of the API cannot be made'),
  });
  const filePage =
    (fileOf: typeof consoleFile, path: string, isPacked: boolean): Page =>
    async (response, headers, requestId) => {
      const file = await fileOf(path);
      if (file === undefined) {
        sendNoSuchPage(response, headers, requestId);
        return;
      }
      const all: Headers = {
        ...headers,
        ...(path === 'index.html' && { 'content-security-policy': pagePolicy(file) }),
        // the browser asks again each time for what is not named by its content
        'cache-control': file.isNamedByContent ? 'public, max-age=31536000, immutable' : 'no-cache',
        vary: 'accept-encoding',
        ...(isPacked ? { 'content-encoding': 'gzip' } : { etag: file.etag }),
      };
      sendBody(response, 200, all, isPacked ? file.packed : file.body, file.type);
    };

  const filePages = [
    ['/console', consoleFile],
    ['/docs', docsFile],
  ] as const;

  const pages: Readonly<Record<string, Page>> = {
    '/healthz': (response, headers) => sendBody(response, 200, headers, '{"success":true,"data":{"status":"ok"}}'),
    '/readyz': async (response, headers, requestId) => {
      const unready = await deps.readiness();
      if (unready === undefined) sendBody(response, 200, headers, '{"success":true,"data":{"status":"ready"}}');
      else sendBody(response, 503, headers, errorBody(unready, requestId));
    },
    '/metrics': async (response, headers) => {
      const { registry } = deps;
      sendBody(response, 200, headers, await registry.metrics(), registry.contentType);
    },
  };

  return (request) => {
    const { method, url = '' } = request;
    if (method !== 'GET' && method !== 'HEAD') return undefined;
    const at = url.indexOf('?');
    const path = at === -1 ? url : url.slice(0, at);
    if (path === '/') return toConsole;
    if (path === '/metrics' && !mayReadMetrics(request)) return refuseMetrics;
    const isPacked = takesGzip(request.headers);
    for (const [name, fileOf] of filePages) {
      if (path === name) return filePage(fileOf, 'index.html', isPacked);
      if (path === `${name}/`) return toBeside(name);
      if (path.startsWith(`${name}/`)) return filePage(fileOf, path.slice(name.length + 1), isPacked);
    }
    if (path === '/openapi.json') return documentPage(isPacked);
    if (path.startsWith('/schemas/')) return schemaPage(path.slice('/schemas/'.length));
    return Object.hasOwn(pages, path) ? pages[path] : agentPage(path, request);
  };
}

const refuseMetrics: Page = (response, headers, requestId) => {
  const message = 'Metrics are read from the addresses of --metrics-from alone: by default this machine';
  sendBody(response, 403, headers, errorBody(forbidden(message), requestId));
};

/** Leads to the address from which the page names its files, also where a proxy puts a path before it. */
function toBeside(name: string): Page {
  return (response, headers) => sendBody(response, 302, { ...headers, location: `..${name}` }, '');
}

const toConsole: Page = (response, headers) => sendBody(response, 302, { ...headers, location: 'console' }, '');

export function sendNoSuchPage(response: ServerResponse, headers: Headers, requestId: string): void {
  sendBody(response, 404, headers, errorBody(notFound('Page'), requestId));
}
