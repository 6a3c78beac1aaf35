import { createHash } from 'node:crypto';
import type { openApiDocument } from './openapi.ts';

type Document = ReturnType<typeof openApiDocument>;

const style = `
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; }
details { border-bottom: 1px solid #8884; padding: .4rem 0; }
summary { cursor: pointer; display: flex; flex-wrap: wrap; gap: .25rem .75rem; }
summary b { min-width: 4rem; }
summary span { opacity: .75; flex-basis: 100%; padding-left: 4.75rem; }
pre { overflow: auto; background: #8881; padding: .75rem; border-radius: .5rem; font-size: 13px; }
`;

/** Lets the page use its own style and nothing else. */
export const docsPolicy = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'; frame-ancestors 'none'`;

/** The document as a page without scripts and without external resources. */
export function docsPage({ info, paths = {}, components }: Document): string {
  const operations = Object.entries(paths).flatMap(
    ([path, item]) =>
      Object.entries(item).map(([method, operation]) => ({ path, method, operation: operation as Operation })), // path items hold operations only
  );
  const areas = Map.groupBy(operations, ({ operation }) => operation.tags?.[0] ?? '');
  const sections = [...areas].map(
    ([area, entries]) => `<h2>${escape(area)}</h2>${entries.map(operationHtml).join('')}`,
  );
  return `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escape(info.title)} API</title><style>${style}</style>
<h1>${escape(info.title)} API ${escape(info.version)}</h1>
<p>Paths are below <code>/&lt;tenant&gt;</code>. The machine-readable form is <a href="/openapi.json">openapi.json</a>.</p>
${sections.join('\n')}
<h2>Schemas</h2>${Object.entries(components?.schemas ?? {})
    .map(([name, schema]) => `<details><summary><b>${escape(name)}</b></summary>${json(schema)}</details>`)
    .join('')}
</html>`;
}

interface Operation {
  summary?: string;
  tags?: string[];
  parameters?: unknown;
  requestBody?: unknown;
  responses?: unknown;
}

function operationHtml({ path, method, operation }: { path: string; method: string; operation: Operation }): string {
  const { summary = '', parameters, requestBody, responses } = operation;
  const parts = Object.entries({ parameters, requestBody, responses })
    .filter(([, value]) => value !== undefined)
    .map(([title, value]) => `<h4>${title}</h4>${json(value)}`);
  return `<details><summary><b>${method.toUpperCase()}</b><code>${escape(path)}</code><span>${escape(summary)}</span></summary>${parts.join('')}</details>`;
}

function json(value: unknown): string {
  return `<pre>${escape(JSON.stringify(value, null, 2))}</pre>`;
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
