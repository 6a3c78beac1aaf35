import { ApiObject } from '../client.ts';
import type { Client } from '../client.ts';
import type { CliKind, PlaceNames } from '../objects.ts';
import { findObject, isDeploymentName, kindOf, listObjects, placeNames, singular } from '../objects.ts';
import { printed } from '../printed.ts';
import { resumed } from '../resume.ts';
import { headOf, rowOf, usualRow } from '../rows.ts';
import { Columns, table } from '../table.ts';

interface Options {
  project?: string;
  output?: string;
  watch?: boolean;
}

/** Lists objects; with `watch`, prints each change as it happens. */
export async function get(
  client: Client,
  word: string,
  name: string | undefined,
  options: Options,
  signal: AbortSignal,
): Promise<void> {
  const kind = kindOf(word);
  if (options.watch === true) {
    await follow(client, kind, name, options, signal);
    return;
  }
  const { found } = await select(client, kind, name, options.project);
  if (options.output === 'json' || options.output === 'yaml') {
    console.log(await printed(found, options.output));
    return;
  }
  const names = await placeNames(client, kind, found);
  const now = new Date();
  console.log(
    table(
      headOf(kind),
      found.map((it) => rowOf(kind, it, names, now)),
    ),
  );
}

interface Selection {
  found: ApiObject[];
  /** Whether a change of this object is shown, too. */
  isWanted: (it: ApiObject) => boolean;
}

/** The objects that a name selects: one object, or all deployments of an application. */
async function select(
  client: Client,
  kind: CliKind,
  name: string | undefined,
  project: string | undefined,
): Promise<Selection> {
  if (name === undefined) return { found: await listObjects(client, kind, project), isWanted: () => true };
  if (kind === 'deployments' && !isDeploymentName(name)) {
    const { id } = await findObject(client, 'applications', name, project);
    const found = await client.list(`/api/v1/applications/${id}/deployments`);
    return { found, isWanted: (it) => it['application_id'] === id };
  }
  const one = await findObject(client, kind, name, project);
  return { found: [one], isWanted: (it) => it.id === one.id };
}

/** Opens the stream before it reads the list, so that no change is missed between them. */
async function follow(
  client: Client,
  kind: CliKind,
  name: string | undefined,
  options: Options,
  signal: AbortSignal,
): Promise<void> {
  const project = options.project === undefined ? undefined : await findObject(client, 'projects', options.project);
  const query = { kinds: singular(kind), ...(project === undefined ? {} : { projectId: project.id }) };
  let shown: Shown | undefined;
  let isWanted: Selection['isWanted'] = () => true;
  for await (const frame of resumed(client, '/ws/watch', query, {}, signal)) {
    if (shown === undefined) {
      const selection = await select(client, kind, name, options.project);
      isWanted = selection.isWanted;
      shown = new Shown(kind, await placeNames(client, kind), options.output === 'json');
      shown.all(selection.found);
      continue;
    }
    if (frame['type'] === 'gap') console.error('… changes were lost: run the command again to see every object');
    const id = String(frame['id']);
    if (frame['op'] === 'delete') shown.deleted(id);
    const it = ApiObject.safeParse(frame['object']);
    if (it.success && isWanted(it.data)) shown.changed(it.data);
  }
}

/** The rows on the screen, printed one after another. In a table, an unchanged row is not printed again. */
class Shown {
  readonly #kind: CliKind;
  readonly #names: PlaceNames;
  readonly #json: boolean;
  readonly #rows = new Map<string, string[]>();
  #columns = new Columns([]);

  constructor(kind: CliKind, names: PlaceNames, json: boolean) {
    this.#kind = kind;
    this.#names = names;
    this.#json = json;
  }

  all(found: readonly ApiObject[]): void {
    const head = headOf(this.#kind).map((it) => it.toUpperCase());
    const now = new Date();
    const rows = found.map((it) => rowOf(this.#kind, it, this.#names, now));
    this.#columns = new Columns([head, usualRow(this.#kind), ...rows]);
    if (!this.#json) console.log(this.#columns.line(head));
    for (const it of found) this.changed(it);
  }

  changed(it: ApiObject): void {
    if (this.#json) {
      console.log(JSON.stringify(it));
      return;
    }
    const row = rowOf(this.#kind, it, this.#names);
    if (JSON.stringify(row) === JSON.stringify(this.#rows.get(it.id))) return;
    this.#rows.set(it.id, row);
    console.log(this.#columns.line(rowOf(this.#kind, it, this.#names, new Date())));
  }

  deleted(id: string): void {
    const row = this.#rows.get(id);
    if (this.#json) console.log(JSON.stringify({ id, deleted: true }));
    else if (row !== undefined) {
      const status = headOf(this.#kind).indexOf('status');
      const last = row.slice(0, -1).map((cell, at) => (at === status ? 'deleted' : cell));
      console.log(this.#columns.line([...last, '', id]));
    }
    this.#rows.delete(id);
  }
}
