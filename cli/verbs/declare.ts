import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
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
  const answer = await client.request('POST', '/api/v1/apply', {
    project_id: id,
    content: await declaredIn(options.file),
    ...(set !== undefined && { set }),
    ...(manager !== undefined && { manager }),
    prune: prune !== undefined,
    force,
    dry_run: dryRun,
    ...(deploy === false && { deploy }),
  });
  const plan = Plan.parse(answer);
  printPlan(plan);
  const waiting = plan.steps.filter(({ waits_for }) => waits_for !== null);
  for (const { name, waits_for: waitsFor } of waiting) console.log(cell(`${name} waits for: ${String(waitsFor)}`));
  if (waiting.length > 0 && !dryRun) throw new Error('Not all is done: apply the same again');
}

/** Prints what applying would change. Exits with 1 if that is anything. */
export async function diff(client: Client, options: DeclareOptions): Promise<void> {
  if (options.project === undefined) throw new Error('Say which project it is for: --project NAME');
  const { id } = await findObject(client, 'projects', options.project);
  const answer = await client.request('POST', '/api/v1/apply', {
    project_id: id,
    content: await declaredIn(options.file),
    ...(options.manager !== undefined && { manager: options.manager }),
    dry_run: true,
  });
  const plan = Plan.parse(answer);
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

/** The text of a file, or of each YAML and JSON file of a folder, by their names. */
async function declaredIn(path: string): Promise<string> {
  if (path === '-' || !(await isFolder(path))) return contentOf(path);
  const files = (await readdir(path)).filter((name) => /\.(ya?ml|json)$/.test(name)).toSorted();
  if (files.length === 0) throw new Error(`There is no YAML or JSON file in ${path}`);
  const texts = await Promise.all(files.map((name) => contentOf(join(path, name))));
  return texts.join('\n---\n');
}

async function isFolder(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch {
    return false;
  }
}
