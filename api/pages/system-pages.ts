import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Registry } from 'prom-client';
import { forbidden, notFound } from '../ground/api-error.ts';
import type { ApiError } from '../ground/api-error.ts';
import type { ApiConfig } from '../ground/config.ts';
import type { AgentReleases } from '../ground/agent-release.ts';
import type { Clock } from '../../time/clock.ts';
import type { Logger } from 'pino';
import { createAgentPages } from './agent-pages.ts';
import { consolePolicy, createConsole } from './console.ts';
import { docsPage, docsPolicy } from './docs-page.ts';
import { endpointsByArea } from '../routes/endpoints.ts';
import { createMetricsAccess } from './operator-access.ts';
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
  let documents: Promise<{ json: string; html: string }> | undefined;
  const document = async (): Promise<{ json: string; html: string }> => {
    const { openApiDocument } = await import('./openapi.ts'); // few replicas are asked for it
    const made = openApiDocument(endpointsByArea, deps.config);
    return { json: JSON.stringify(made), html: docsPage(made) };
  };
  const documented = (): Promise<{ json: string; html: string }> => (documents ??= document());

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
  const consoleFile = createConsole((error) => deps.log.error({ err: error }, 'the console cannot be made'));
  const consolePage =
    (path: string, takesGzip: boolean): Page =>
    async (response, headers, requestId) => {
      const file = await consoleFile(path);
      if (file === undefined) {
        sendNoSuchPage(response, headers, requestId);
        return;
      }
      const all: Headers = {
        ...headers,
        ...(path === 'index.html' && { 'content-security-policy': consolePolicy(file) }),
        // the browser asks again each time for what is not named by its content
        'cache-control': file.isNamedByContent ? 'public, max-age=31536000, immutable' : 'no-cache',
        vary: 'accept-encoding',
        ...(takesGzip ? { 'content-encoding': 'gzip' } : { etag: file.etag }),
      };
      sendBody(response, 200, all, takesGzip ? file.packed : file.body, file.type);
    };

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
    '/openapi.json': async (response, headers) => sendBody(response, 200, headers, (await documented()).json),
    '/docs': async (response, headers) => {
      const all = { ...headers, 'content-security-policy': docsPolicy };
      sendBody(response, 200, all, (await documented()).html, 'text/html; charset=utf-8');
    },
  };

  return (request) => {
    const { method, url = '' } = request;
    if (method !== 'GET' && method !== 'HEAD') return undefined;
    const at = url.indexOf('?');
    const path = at === -1 ? url : url.slice(0, at);
    if (path === '/') return toConsole;
    if (path === '/metrics' && !mayReadMetrics(request)) return refuseMetrics;
    const takesGzip = /\bgzip\b(?!;q=0\b)/.test(request.headers['accept-encoding'] ?? '');
    if (path === '/console') return consolePage('index.html', takesGzip);
    if (path === '/console/') return toConsoleBeside;
    if (path.startsWith('/console/')) return consolePage(path.slice('/console/'.length), takesGzip);
    if (path.startsWith('/schemas/')) return schemaPage(path.slice('/schemas/'.length));
    return Object.hasOwn(pages, path) ? pages[path] : agentPage(path, request);
  };
}

const refuseMetrics: Page = (response, headers, requestId) => {
  const message = 'Metrics are read from the addresses of --metrics-from alone: by default this machine';
  sendBody(response, 403, headers, errorBody(forbidden(message), requestId));
};

/** Leads to the address from which the page names its files, also where a proxy puts a path before it. */
const toConsoleBeside: Page = (response, headers) =>
  sendBody(response, 302, { ...headers, location: '../console' }, '');

const toConsole: Page = (response, headers) => sendBody(response, 302, { ...headers, location: 'console' }, '');

export function sendNoSuchPage(response: ServerResponse, headers: Headers, requestId: string): void {
  sendBody(response, 404, headers, errorBody(notFound('Page'), requestId));
}
