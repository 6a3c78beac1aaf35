import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { agentCommand } from '../cli/agent-command.ts';
import { serverCommand } from '../cli/server-command.ts';
import { verbs } from '../cli/verbs.ts';
import { ApplicationManifest, parseApplications } from '../manifests/application.ts';

const root = join(import.meta.dirname, '..');

/** Folders that a checkout does not have. */
const ignored = (await readFile(join(root, '.gitignore'), 'utf8')).split('\n').map((line) => line.replaceAll('/', ''));

/** The pages of the project, by path from the root. */
async function pagesIn(folder: string): Promise<string[]> {
  const entries = await readdir(join(root, folder), { withFileTypes: true });
  const own = entries.filter((entry) => !entry.name.startsWith('.') && !ignored.includes(entry.name));
  const found = own.map((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return pagesIn(path);
    return Promise.resolve(path.endsWith('.md') ? [path] : []);
  });
  return (await Promise.all(found)).flat();
}
const pages = await pagesIn('.');

/** The text of a page without its blocks of code. */
const textOf = async (page: string): Promise<string> =>
  (await readFile(join(root, page), 'utf8')).replaceAll(/^```.*?^```$/gms, '');

/** The anchors of a page, as its headings get them where it is shown. */
async function anchorsOf(page: string): Promise<Set<string>> {
  const headings = [...(await textOf(page)).matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => heading);
  return new Set(
    headings.map((it) =>
      it
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  );
}

/** What a link of a page leads to that does not exist; `undefined` if it does. */
async function brokenPart(page: string, link: string): Promise<string | undefined> {
  const [path = '', anchor] = link.split('#');
  const target = path === '' ? page : join(dirname(page), path);
  if (!existsSync(join(root, target))) return target;
  if (anchor === undefined || !target.endsWith('.md')) return undefined;
  return (await anchorsOf(target)).has(anchor) ? undefined : `${target}#${anchor}`;
}

describe('the pages of the project', () => {
  test('link to files and headings that exist', async () => {
    const broken: string[] = [];
    let count = 0;
    for (const page of pages)
      for (const [, link = ''] of (await textOf(page)).matchAll(/\]\(([^)\s]+)\)/g)) {
        if (/^[a-z]+:/.test(link)) continue;
        count += 1;
        const part = await brokenPart(page, link);
        if (part !== undefined) broken.push(`${page} links to ${part}`);
      }
    expect(count).toBeGreaterThan(20);
    expect(broken).toEqual([]);
  });

  test('name source files by paths from the root', async () => {
    const missing: string[] = [];
    let count = 0;
    for (const page of pages)
      for (const [, path = ''] of (await textOf(page)).matchAll(/`((?:[\w.-]+\/)+[\w.-]+\.(?:ts|md))`/g)) {
        if (path.includes('KIND')) continue; // stands for the name of any kind
        count += 1;
        if (!existsSync(join(root, path))) missing.push(`${page} names ${path}`);
      }
    expect(count).toBeGreaterThan(50);
    expect(missing).toEqual([]);
  });
});

describe('the page of manifests', () => {
  test('names each field, and no other', async () => {
    const text = await textOf('docs/manifests.md');
    const rows = [...text.matchAll(/^\| (`.*?) \|/gm)].map(([, cell = '']) => cell);
    const named = rows.flatMap((cell) => [...cell.matchAll(/`(?:spec\.)?([a-z_.]+)`/g)].map(([, name = '']) => name));
    const { spec, metadata } = ApplicationManifest.shape;
    const fields = [...Object.keys(metadata.shape).map((name) => `metadata.${name}`), ...Object.keys(spec.shape)];
    expect(named.toSorted()).toEqual(fields.toSorted());
  });

  test('has an example that is one', async () => {
    const [, example = ''] =
      /^```yaml\n(.*?)^```$/ms.exec(await readFile(join(root, 'docs/manifests.md'), 'utf8')) ?? [];
    expect(parseApplications(example)).toMatchObject([{ metadata: { name: 'shop' } }]);
  });
});

describe('the page of settings', () => {
  test.each([
    ['server', serverCommand()],
    ['agent', agentCommand('agent')],
  ])('names each flag of `setpoint %s`, with its variable, and no other', async (name, command) => {
    const text = await textOf('docs/settings.md');
    const [, table = ''] = new RegExp(`^\\| \`setpoint ${name}\` .*\\n((?:\\|.*\\n)+)`, 'm').exec(text) ?? [];
    const named = table.split('\n').flatMap((row) => [...(row.split('|')[1] ?? '').matchAll(/`(--[a-z-]+)`/g)]);
    const flags = command.options.filter((it) => !it.hidden && it.long !== '--version').map((it) => it.long ?? '');
    expect(named.map(([, flag = '']) => flag).toSorted()).toEqual(flags.toSorted());
    for (const { long, envVar } of command.options) {
      const row = table.split('\n').find((it) => it.startsWith(`| \`${long}\` |`));
      if (row !== undefined) expect(row).toContain(`\`${envVar}\``);
    }
  });
});

describe('the page of commands', () => {
  test('names each of them', async () => {
    const text = await textOf('docs/commands.md');
    const missing = verbs
      .map(({ use }) => use.split(' ')[0] ?? '')
      .filter((word) => !new RegExp(`\`[^\`]*\\b${word}\\b`).test(text));
    expect(missing).toEqual([]);
  });
});

/** What a page shows of `setpoint VERB …`, in spans and blocks of code: the verb, and what follows it up to its end. */
async function commandsOf(page: string): Promise<[verb: string, rest: string][]> {
  const text = (await readFile(join(root, page), 'utf8')).replaceAll('\\\n', ' ');
  const blocks = [...text.matchAll(/^```\w*\n(.*?)^```$/gms)].flatMap(([, block = '']) => block.split('\n'));
  const spans = [...text.replaceAll(/^```.*?^```$/gms, '').matchAll(/`([^`]+)`/g)].map(([, span = '']) => span);
  // in a table `\|` is between alternatives; what follows `|`, `;`, `#`, `--` and `)` is not of the command
  return [...blocks, ...spans.map((span) => span.replaceAll('\\|', ' '))].flatMap((line) =>
    [...line.matchAll(/\bsetpoint ([a-z-]+)(.*?)(?=$| [|;#&] | --(?: |$)|\)|\bsetpoint )/gm)].map(
      ([, verb = '', rest = '']): [string, string] => [verb, rest],
    ),
  );
}

describe('commands in pages', () => {
  test('have only options that they take', async () => {
    const common = ['--server', '--tenant', '--token', '--context', '--help'];
    const wrong: string[] = [];
    let count = 0;
    for (const page of pages)
      for (const [word, rest] of await commandsOf(page)) {
        const verb = verbs.find(({ use }) => use.split(' ')[0] === word);
        if (verb === undefined) continue; // of the machine itself, or no command
        const own = verb.options.flatMap(({ long, short }) => [long, short]);
        const taken = new Set([...own, ...common, ...(verb.inProject ? ['--project'] : [])]);
        for (const [, option = ''] of rest.matchAll(/(?<=[\s[])(--?[a-z][a-z-]*)/g)) {
          count += 1;
          if (!taken.has(option)) wrong.push(`${page}: setpoint ${word} ${option}`);
        }
      }
    expect(count).toBeGreaterThan(100);
    expect(wrong).toEqual([]);
  });
});
