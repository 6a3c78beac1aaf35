import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = new URL('../../', import.meta.url);
const entry = 'web/main.tsx';
/** Styles of packages, before our own. */
const packageStyles = ['uplot/dist/uPlot.min.css', '@xterm/xterm/css/xterm.css'];
/** Modules that load a large library, only where it is needed. */
const lazy: ReadonlySet<string> = new Set(['series-plot.ts', 'terminal-screen.ts']);
/** Folders of our own styles in the order in which the browser reads them. */
const styleFolders = ['web/style/', 'web/frame/', 'web/pages/'];
const firstStyle = 'tokens.css';

/**
 * The console as the browser gets it, by the path of each file below `/console/`: the modules of `web/` and of the
 * packages that they use as one entry and chunks that are loaded when a page needs them, with their source maps, and
 * one style sheet. All but `index.html` are named by their content. @throws Error if the bundler is not installed, or
 * if a file cannot be bundled
 */
export async function bundleConsole(): Promise<ReadonlyMap<string, string>> {
  const [modules, style, page] = await Promise.all([
    bundleModules(),
    styleSheet(),
    readFile(new URL('web/index.html', root), 'utf8'),
  ]);
  const styleName = `style-${hashOf(style)}.css`;
  const index = page.replaceAll('MAIN.js', modules.entry).replaceAll('STYLE.css', styleName);
  return new Map([['index.html', index], [styleName, style], ...modules.files]);
}

async function bundleModules(): Promise<{ entry: string; files: [path: string, text: string][] }> {
  const { rolldown } = await import('rolldown'); // few replicas are asked for the console
  const faults: string[] = [];
  await using bundle = await rolldown({
    cwd: fileURLToPath(root),
    input: { main: entry },
    platform: 'browser',
    tsconfig: 'web/tsconfig.json',
    transform: { define: { 'process.env.NODE_ENV': '"production"' } },
    onLog: (_level, { code, message }) => void faults.push(`${code ?? 'fault'}: ${message}`),
  });
  const { output } = await bundle.generate({
    format: 'esm',
    minify: true,
    // what most pages use comes at once: a page is then one request
    codeSplitting: { groups: [{ name: 'shared', test: isShared }] },
    sourcemap: true,
    entryFileNames: '[name]-[hash].js',
    chunkFileNames: '[name]-[hash].js',
  });
  if (faults.length > 0) throw new Error(`The console cannot be bundled:\n${faults.join('\n')}`);
  const main = output.find((it) => it.type === 'chunk' && it.isEntry);
  if (main === undefined) throw new Error(`The console cannot be bundled: ${entry} gave no module`);
  const files = output.map((it): [string, string] => [
    it.fileName,
    it.type === 'chunk' ? it.code : it.source.toString(),
  ]);
  return { entry: main.fileName, files };
}

function isShared(id: string): boolean {
  return /[/\\]web[/\\](?:parts|frame)[/\\]/.test(id) && !lazy.has(basename(id));
}

async function styleSheet(): Promise<string> {
  const ofPackages = packageStyles.map((name) => readFile(fileURLToPath(import.meta.resolve(name)), 'utf8'));
  const ours = await Promise.all(styleFolders.map(async (folder) => readStyles(folder)));
  const whole = [...(await Promise.all(ofPackages)), ...ours.flat()].join('\n');
  // a browser has no use for the indentation
  return whole.replaceAll(/\n\s+/g, '\n');
}

async function readStyles(folder: string): Promise<string[]> {
  const url = new URL(folder, root);
  const names = (await readdir(url, { recursive: true })).filter((name) => name.endsWith('.css'));
  const order = names.toSorted((a, b) => Number(b === firstStyle) - Number(a === firstStyle) || a.localeCompare(b));
  return Promise.all(order.map((name) => readFile(new URL(name, url), 'utf8')));
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, 8);
}
