import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { Refused } from '../client.ts';
import type { Client } from '../client.ts';
import { contentOf } from '../file-content.ts';
import { findObject } from '../objects.ts';
import { Plan, printPlan } from '../plan.ts';
import { cell } from '../table.ts';

export interface DeclareOptions {
  file: string;
  project?: string;
  dryRun?: boolean;
  /** Name of the set of which nothing else is to stay. */
  prune?: string;
  set?: string;
  manager?: string;
  force?: string[];
  deploy?: boolean;
}

/**
 * Brings a project to what a file, or each file of a folder, declares, and prints the plan. @throws Error also where a part of
 * it waits for something to be gone
 */
export async function declare(client: Client, options: DeclareOptions): Promise<void> {
  const { project, dryRun = false, prune, set = prune, manager, force = [], deploy } = options;
  if (project === undefined) throw new Error('Say which project it is for: --project NAME');
  const { id } = await findObject(client, 'projects', project);
  const plan = await planned(client, options.file, {
    project_id: id,
    ...(set !== undefined && { set }),
    ...(manager !== undefined && { manager }),
    prune: prune !== undefined,
    force,
    dry_run: dryRun,
    ...(deploy === false && { deploy }),
  });
  printPlan(plan);
  const waiting = plan.steps.filter(({ waits_for }) => waits_for !== null);
  for (const { name, waits_for: waitsFor } of waiting) console.log(cell(`${name} waits for: ${String(waitsFor)}`));
  if (waiting.length > 0 && !dryRun) throw new Error('Not all is done: apply the same again');
}

/** Prints what applying would change. Exits with 1 if that is anything. */
export async function diff(client: Client, options: DeclareOptions): Promise<void> {
  if (options.project === undefined) throw new Error('Say which project it is for: --project NAME');
  const { id } = await findObject(client, 'projects', options.project);
  const plan = await planned(client, options.file, {
    project_id: id,
    ...(options.manager !== undefined && { manager: options.manager }),
    dry_run: true,
  });
  printPlan({ ...plan, steps: plan.steps.filter(({ action }) => action !== 'unchanged') });
  if (plan.changes) process.exitCode = 1;
}

const Exported = z.object({ content: z.string(), left_out: z.array(z.string()) });

/** Prints what is in a project as a text that can be applied; what is left out on standard error. */
export async function exportProject(client: Client, name: string): Promise<void> {
  const { id } = await findObject(client, 'projects', name);
  const { content, left_out: leftOut } = Exported.parse(await client.request('GET', `/api/v1/projects/${id}/export`));
  for (const one of leftOut) console.error(cell(`left out: ${one}`));
  console.log(content.trimEnd());
}

/** Has the plan of a text made or carried out. @throws Error with the file of each fault, where the text is of a folder */
async function planned(client: Client, file: string, body: object): Promise<z.infer<typeof Plan>> {
  const parts = await declaredIn(file);
  const content = parts.map((it) => it.text).join(between);
  try {
    return Plan.parse(await client.request('POST', '/api/v1/apply', { ...body, content }));
  } catch (error) {
    if (!(error instanceof Refused) || parts.length === 1) throw error;
    throw new Error(inFiles(error.message, parts), { cause: error });
  }
}

interface Part {
  path: string;
  text: string;
}

const between = '\n---\n';

/** A message about lines of the whole text, with the file of each, and its line there. */
function inFiles(message: string, parts: readonly Part[]): string {
  return message.replaceAll(/\bLine (\d+)(?=, column \d)/g, (words, number: string) => {
    let line = Number(number);
    for (const { path, text } of parts) {
      const lines = text.split('\n').length;
      if (line <= lines) return `${path}, line ${Math.max(line, 1)}`;
      line -= lines + 1; // what is between two files is one line more
    }
    return words;
  });
}

/** Bounds of what is looked through. */
const most = { files: 100, entries: 10_000 };

/** The text of a file, or of each YAML and JSON file of a folder, at any depth and without hidden ones, by their names. */
async function declaredIn(path: string): Promise<Part[]> {
  if (path === '-' || !(await isFolder(path))) return [{ path, text: await contentOf(path) }];
  const files: string[] = [];
  let entries = 0;
  const walk = async (folder: string): Promise<void> => {
    const inside = await readdir(folder, { withFileTypes: true });
    entries += inside.length;
    for (const it of inside.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
      if (it.name.startsWith('.')) continue;
      if (it.isDirectory()) await walk(join(folder, it.name));
      else if (/\.(ya?ml|json)$/i.test(it.name)) files.push(join(folder, it.name));
      if (files.length > most.files || entries > most.entries)
        throw new Error(
          `${path} has more than ${most.files} YAML and JSON files, or ${most.entries} of all: name a folder that has only what declares objects`,
        );
    }
  };
  await walk(path);
  if (files.length === 0) throw new Error(`There is no YAML or JSON file in ${path}`);
  return Promise.all(files.map(async (file) => ({ path: file, text: await contentOf(file) })));
}

async function isFolder(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch {
    return false;
  }
}
