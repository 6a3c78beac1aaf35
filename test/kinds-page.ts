/**
 * Compares `docs/kinds.md`, a page of all kinds, with what their declarations give.
 * Usage: node test/kinds-page.ts [--write]
 */
import { z } from 'zod';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { routeName } from '../api/endpoint/endpoint.ts';
import type { AnyEndpoint } from '../api/endpoint/endpoint.ts';
import { endpoints } from '../api/routes/endpoints.ts';
import type { Resource } from '../api/resources/resource.ts';
import { resourceOf, resources } from '../api/resources/resources.ts';
import type { ResourceKind } from '../api/resources/resources.ts';
import { streams } from '../api/streams/streams.ts';
import { kindWords, rowOfKind, singular } from '../cli/objects.ts';
import { verbs as cliVerbs } from '../cli/verbs.ts';
import { writerOf } from '../controllers/runtime/graph.ts';
import type { VerbTable } from '../rules/verb-table.ts';
import { definitionOf } from '../store/definition.ts';
import type { Definition } from '../store/definition.ts';
import { kinds } from '../store/kinds/kinds.ts';
import type { KindName } from '../store/kinds/kinds.ts';
import { allControllers } from './harness/all-controllers.ts';

/** By its address: a program of the browser is not checked together with those of Node. */
const { pages } = z
  .object({ pages: z.array(z.object({ title: z.string(), kinds: z.array(z.string()) })) })
  .parse(await import(new URL('../web/pages/pages.ts', import.meta.url).href));

const name = 'docs/kinds.md';
const file = join(import.meta.dirname, '..', name);

/** Names of columns and cells must not end a cell. */
const escaped = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ');
const code = (text: string): string => `\`${text}\``;
const list = (texts: readonly string[]): string => (texts.length === 0 ? '–' : texts.join(', '));

/** Any desired state: each field contains its own name; `of` is of the given kind. */
function anyDesired(kind: string | undefined): object {
  const of = { kind, id: 'of.id' };
  return new Proxy({}, { get: (_, field) => (field === 'of' && kind !== undefined ? of : String(field)) });
}

/** The kinds of which an object may be that says so in `of`. */
function kindsOfOf({ desired }: Definition<KindName>): readonly (string | undefined)[] {
  const of = desired instanceof z.ZodObject ? desired.shape['of'] : undefined;
  const kind = of instanceof z.ZodObject ? of.shape['kind'] : undefined;
  return kind instanceof z.ZodEnum ? kind.options.map(String) : [undefined];
}

function ownersOf(definition: Definition<KindName>): { kind: string; text: string }[] {
  const owners = kindsOfOf(definition).flatMap((kind) => definition.owners?.(anyDesired(kind) as never) ?? []);
  return owners.map(({ kind, id, blocks }) => ({
    kind,
    text: `${code(kind)} (${id}${blocks ? '' : ', does not take it along'})`,
  }));
}

function fieldsOf(shape: Readonly<Record<string, { isOptional(): boolean }>>): string {
  return list(Object.entries(shape).map(([field, schema]) => code(schema.isOptional() ? `${field}?` : field)));
}

function writerText(kind: KindName, hasObserved: boolean): string {
  if (!hasObserved) return '–';
  const writer = writerOf(allControllers, kind);
  if (writer === undefined) throw new Error(`No controller writes ${kind}: list its controller in cli/controllers.ts`);
  if (writer === 'gateway') return 'gateway, from the reports of agents';
  return writer === 'API' ? 'API' : `controller ${code(writer.name)}`;
}

function notificationsOf(kind: KindName): string {
  const { notifies = [] } = allControllers.find((one) => one.kind === kind) ?? {};
  return 'never' in notifies ? `never: ${notifies.never}` : list(notifies.map(code));
}

function childrenOf(kind: KindName): string {
  const owned = (Object.keys(kinds) as KindName[]).filter((child) =>
    ownersOf(definitionOf(child)).some((owner) => owner.kind === kind),
  );
  const written = allControllers.find((one) => one.kind === kind)?.children ?? [];
  return list([
    ...owned.map(code),
    ...written.filter((one) => !owned.includes(one)).map((one) => `${code(one)} (written, not owned)`),
  ]);
}

function keptFor({ keep }: Definition<KindName>): string {
  const { outlivesDeletionOf: outlives = [], usedBy = [] } = keep;
  const rules = [
    'untilDeleted' in keep ? keep.untilDeleted : '',
    'newest' in keep
      ? `the newest ${keep.newest.count} of each value of ${code(keep.newest.under)}` +
        `${keep.newest.hasEnded === undefined ? '' : ', ended ones alone'}` +
        `${keep.newest.unless === undefined ? '' : ', and those that its rule spares'}`
      : '',
    'until' in keep ? 'until it expires by its rule' : '',
    usedBy.length === 0 ? '' : `never expires while it is used by ${list(usedBy.map(code))}`,
    outlives.length === 0 ? '' : `stays while its owner is being deleted: ${list(outlives.map(code))}`,
  ];
  return rules.filter((text) => text !== '').join('; ');
}

function cloneOf({ clone }: Definition<KindName>): string {
  if (clone === undefined) return 'is in no environment';
  if ('never' in clone) return `never: ${clone.never}`;
  return `copied; ids in ${list(clone.references.map(code))} lead to copies`;
}

function earlierLeaderOf({ ignorable = [] }: Definition<KindName>): string {
  if (ignorable === true) return 'may ignore it';
  return ignorable.length === 0 ? 'must know it' : `must know it, and may ignore ${list(ignorable.map(code))}`;
}

/** An endpoint is of the kind that it shows, or else of the kind that its path names. */
function isOf(endpoint: AnyEndpoint, kind: KindName, { answer }: Resource<ResourceKind>): boolean {
  const shown: unknown = endpoint.list ? endpoint.item : 'response' in endpoint ? endpoint.response : undefined;
  if (endpoint.on?.[0] === kind && !endpoint.list) return true;
  const options = typeof shown === 'object' && shown !== null && 'options' in shown ? shown.options : [shown];
  return Array.isArray(options) && options.includes(answer) && (endpoint.list || endpoint.on === undefined);
}

function resourceRows(resource: Resource<ResourceKind>): [string, string][] {
  const { kind, watch, verbs, project } = resource;
  const shown = endpoints.filter((one) => isOf(one, kind, resource));
  const inOrder = shown.toSorted((a, b) => (`${a.path} ${a.method}` < `${b.path} ${b.method}` ? -1 : 1));
  const routes = inOrder.map((one) => code(routeName(one)));
  const own = streams.filter(({ on }) => on?.[0] === kind).map(({ path }) => code(path));
  const shows = 'shows' in watch ? Object.keys(watch.shows) : [];
  const watched =
    'never' in watch
      ? `not in ${code('/ws/watch')}: ${watch.never}`
      : `${code('/ws/watch')}${shows.length === 0 ? '' : `, also as a change of ${list(shows.map(code))} changes it`}`;
  return [
    ['Rights', project === 'tenant' ? 'in the tenant' : 'in its project'],
    ['Routes', list(routes)],
    ['Streams', list([...own, watched])],
    ['States', 'none' in verbs ? `no table: ${verbs.none}` : list(verbs.states.map(code))],
  ];
}

function cliVerbsOf(kind: KindName): string[] {
  const plural = kindWords().find((one) => singular(one) === kind);
  const row = plural === undefined ? undefined : rowOfKind(plural);
  const refused = row === undefined ? [] : [row.hasEvents ? '' : 'events', row.takes === undefined ? 'delete' : ''];
  const argument = new RegExp(`[<[](\\w+\\|)*${kind}(\\|\\w+)*[\\]>]`);
  return cliVerbs
    .filter(({ use }) => argument.test(use) || (row !== undefined && use.includes('<kind>')))
    .map(({ use }) => use.split(' ')[0] ?? '')
    .filter((verb) => !refused.includes(verb))
    .map(code);
}

function section(kind: KindName): string {
  const definition = definitionOf(kind);
  const { desired, observed } = kinds[kind];
  const declared = resources[kind];
  const hasObserved = Object.keys(observed.shape).length > 0;
  const shown = new Set(pages.filter((page) => page.kinds.includes(kind)).map(({ title }) => title));
  const rows: [string, string][] = [
    ['Desired', fieldsOf(desired.shape)],
    ['Observed', hasObserved ? fieldsOf(observed.shape) : '–'],
    ['Writer of observed', writerText(kind, hasObserved)],
    ['Notifications', notificationsOf(kind)],
    ['Owners', list(ownersOf(definition).map(({ text }) => text))],
    ['Children', childrenOf(kind)],
    ['Finalizers', list((definition.finalizers ?? []).map(code))],
    ['Places that hold it', list(Object.keys(definition.populates ?? {}).map(code))],
    ['Indexes', list(Object.keys(definition.indexes ?? {}).map(code))],
    ['Clone', cloneOf(definition)],
    ['Kept', keptFor(definition)],
    ['Leader of an earlier release', earlierLeaderOf(definition)],
    ...('never' in declared
      ? [['API', `never: ${declared.never}`] as [string, string]]
      : resourceRows(resourceOf(declared.kind))),
    ['Command', list(cliVerbsOf(kind))],
    ['Console', list([...shown])],
  ];
  const lines = rows.map(([what, text]) => `| ${what} | ${escaped(text)} |`);
  const tables = 'never' in declared || 'none' in declared.verbs ? [] : [verbGrid(declared.verbs)];
  return [`## ${kind}`, `| | |\n|---|---|\n${lines.join('\n')}`, ...tables].join('\n\n');
}

/** States × verbs: ✓ allowed, ✗ refused, · accepted without effect. */
function verbGrid({ states, verbs }: VerbTable): string {
  const rows = Object.entries(verbs).map(([verb, row]) => {
    const cells = states.map((state) => {
      const cell = row.in[state];
      return cell === 'yes' ? '✓' : cell !== undefined && 'no' in cell ? '✗' : '·';
    });
    return `| ${code(verb)} | ${cells.join(' | ')} |`;
  });
  return [`| | ${states.join(' | ')} |`, `|---|${states.map(() => '---|').join('')}`, ...rows].join('\n');
}

const page = `# Kinds

\`npm run kinds-page\` writes this page from the declarations in \`store/kinds/\`, the controllers, \`api/resources/\`,
\`rules/\`, the routes and streams of the API, the verbs of the command and the pages of the console; \`make check\` compares
it. A field with \`?\` is optional or has a default. In the tables of verbs ✓ is allowed, ✗ is refused with 409, and · is
accepted but nothing comes of it. A verb of the command that takes a kind is listed for every kind that the command
knows.

${(Object.keys(kinds) as KindName[]).map(section).join('\n\n')}
`;

const { values } = parseArgs({ options: { write: { type: 'boolean', default: false } } });
if (values.write) await writeFile(file, page);
else {
  const written = await readFile(file, 'utf8').catch(() => '');
  if (written !== page) {
    console.error(
      `${name} differs from what the declarations of the kinds give:\n${differences(written).join('\n')}\n` +
        'Declare what is missing again; if this is what you want, write the page again: npm run kinds-page',
    );
    process.exitCode = 1;
  }
}

/** The rows of the page that differ: what is written, and what the declarations give. At most ten. */
function differences(written: string): string[] {
  const [before, after] = [rowsOf(written), rowsOf(page)];
  const names = [...new Set([...before.keys(), ...after.keys()])].filter((row) => before.get(row) !== after.get(row));
  return names
    .slice(0, 10)
    .map(
      (row) =>
        `- ${row}\n    written:  ${before.get(row) ?? 'no such row'}\n    declared: ${after.get(row) ?? 'no such row'}`,
    );
}

/** The lines of the tables of a page, by kind and first cell. */
function rowsOf(text: string): ReadonlyMap<string, string> {
  let kind = '';
  const rows = new Map<string, string>();
  for (const line of text.split('\n')) {
    if (line.startsWith('## ')) kind = line.slice(3);
    const [, first, rest] = /^\| (.*?) \| (.*) \|$/.exec(line) ?? [];
    if (first !== undefined && rest !== undefined) rows.set(`${kind}, ${first}`, rest);
  }
  return rows;
}
