import { readdir, readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { parseAst } from 'vitest/node';

/** A place in the sources that starts a program of the machine. */
export interface Start {
  /** Name of the program without its folder, or `undefined` where the place gets it from elsewhere. */
  program: string | undefined;
  /** Path of the file below the root, and the argument as it is written there. */
  place: string;
}

type Node = { type: string; start: number; end: number } & Record<string, unknown>;

/** Functions of Node that start a program; `fork` starts Node itself. */
const starters = new Set(['spawn', 'spawnSync', 'exec', 'execSync', 'execFile', 'execFileSync']);

/**
 * Every call below these folders that starts a program: the functions of `node:child_process`, what `promisify` makes of
 * them, `run`, `start`, `startPiped` and `startDetached` of `agent/machine/process.ts`, and the `executablePath` of a browser.
 */
export async function startedPrograms(root: string, folders: readonly string[]): Promise<Start[]> {
  const starts: Start[] = [];
  for (const folder of folders) {
    const names = await readdir(join(root, folder), { recursive: true });
    for (const name of names.filter((it) => it.endsWith('.ts'))) {
      const path = join(folder, name);
      starts.push(...startsIn(await readFile(join(root, path), 'utf8'), path));
    }
  }
  return starts;
}

/** The same for the text of one file. */
export function startsIn(text: string, path: string): Start[] {
  if (!/child_process|process\.ts'|executablePath/.test(text)) return [];
  const nodes = [...walk(parseAst(text, { lang: 'ts' }) as unknown as Node)];
  const names = startingNames(nodes);
  const literals = literalConstants(nodes);
  const isStarter = (it: Node): boolean =>
    it.type === 'Identifier' ? names.has(String(it['name'])) : isPromisified(it, names);
  return nodes.flatMap((node) => {
    const argument = programOf(node, isStarter);
    if (argument === undefined) return [];
    const value = argument['value'] ?? literals.get(String(argument['name']));
    const program = typeof value === 'string' ? basename(value) : undefined;
    return [{ program, place: `${path}: ${text.slice(argument.start, argument.end)}` }];
  });
}

/** The expression that names the program, where a node starts one. */
function programOf(node: Node, isStarter: (callee: Node) => boolean): Node | undefined {
  if (node.type === 'CallExpression' && isStarter(node['callee'] as Node)) return (node['arguments'] as Node[])[0];
  if (node.type === 'Property' && (node['key'] as Node)['name'] === 'executablePath') return node['value'] as Node;
  return undefined;
}

/** Local names of the functions that start a program. */
function startingNames(nodes: readonly Node[]): Set<string> {
  const names = new Set<string>();
  for (const node of nodes) {
    if (node.type !== 'ImportDeclaration') continue;
    const from = String((node['source'] as Node)['value']);
    for (const specifier of node['specifiers'] as Node[]) {
      const imported = String((specifier['imported'] as Node | undefined)?.['name']);
      const starts =
        from === 'node:child_process'
          ? starters.has(imported)
          : from.endsWith('/process.ts') && ['run', 'start', 'startPiped', 'startDetached'].includes(imported);
      if (starts) names.add(String((specifier['local'] as Node)['name']));
    }
  }
  for (const node of nodes) {
    if (node.type !== 'VariableDeclarator' || node['init'] === null) continue;
    if (isPromisified(node['init'] as Node, names)) names.add(String((node['id'] as Node)['name']));
  }
  return names;
}

function isPromisified(node: Node, names: ReadonlySet<string>): boolean {
  if (node.type !== 'CallExpression' || (node['callee'] as Node)['name'] !== 'promisify') return false;
  return names.has(String((node['arguments'] as Node[])[0]?.['name']));
}

function literalConstants(nodes: readonly Node[]): Map<string, unknown> {
  const literals = new Map<string, unknown>();
  for (const node of nodes) {
    const init = node.type === 'VariableDeclarator' ? (node['init'] as Node | null) : null;
    if (init?.type === 'Literal') literals.set(String((node['id'] as Node)['name']), init['value']);
  }
  return literals;
}

function* walk(node: Node): Generator<Node> {
  yield node;
  for (const value of Object.values(node)) {
    for (const child of Array.isArray(value) ? (value as unknown[]) : [value]) {
      if (typeof child === 'object' && child !== null && 'type' in child) yield* walk(child as Node);
    }
  }
}
