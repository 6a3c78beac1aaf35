import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

/**
 * Begins the viewer. It only shows: requests are made by the console and by `setpoint`, so that nobody enters a token here.
 * The document is found beside the page, also where a proxy puts a path before it.
 */
const start = `
const dark = matchMedia('(prefers-color-scheme: dark)');
const follow = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.addEventListener('change', follow);
follow();
const nothing = () => () => null;
// a tag is closed at first, and open while a filter has found something in it
const isShown = (original) => (state, thing, isUsual) => {
  const filter = state.get('filter');
  const isFound = thing[0] === 'operations-tag' && typeof filter === 'string' && filter !== '';
  return original(thing, isUsual || isFound);
};
SwaggerUIBundle({
  dom_id: '#api',
  url: new URL('openapi.json', location.href).href,
  deepLinking: true,
  docExpansion: 'none',
  defaultModelsExpandDepth: 0,
  filter: true,
  supportedSubmitMethods: [],
  validatorUrl: null,
  plugins: [
    () => ({ wrapComponents: { authorizeBtn: nothing, authorizeOperationBtn: nothing, ServersContainer: nothing } }),
    () => ({ statePlugins: { layout: { wrapSelectors: { isShown } } } }),
  ],
});
`;

/** The box of what is left out has no place. */
const ownStyle = '.swagger-ui .scheme-container { display: none; }\n';

/**
 * The viewer of the API's document as the browser gets it, by the path of each file below `/docs/`. All but `index.html`
 * are named by their content. @throws Error if its package is not installed
 */
export async function docsFiles(): Promise<ReadonlyMap<string, string>> {
  const [script, style] = await Promise.all([packageFile('swagger-ui-bundle.js'), packageFile('swagger-ui.css')]);
  const scripts = [named('viewer', 'js', script), named('start', 'js', start)] as const;
  const styleFile = named('style', 'css', `${style}\n${ownStyle}`);
  const index = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width" />
    <title>API · Setpoint</title>
    <link rel="icon" href="data:," />
    <link rel="stylesheet" href="docs/${styleFile[0]}" />
${scripts.map(([name]) => `    <script src="docs/${name}" defer></script>`).join('\n')}
  </head>
  <body>
    <main id="api"></main>
    <noscript>This page needs scripts. The document that it shows is <a href="openapi.json">openapi.json</a>.</noscript>
  </body>
</html>
`;
  return new Map([['index.html', index], styleFile, ...scripts]);
}

function packageFile(name: string): Promise<string> {
  return readFile(fileURLToPath(import.meta.resolve(`swagger-ui-dist/${name}`)), 'utf8');
}

function named(name: string, extension: string, text: string): readonly [path: string, text: string] {
  const hash = createHash('sha256').update(text).digest('base64url').slice(0, 8);
  return [`${name}-${hash}.${extension}`, text];
}
