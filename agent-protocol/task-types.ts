import { z } from 'zod';
import { GitCredential } from './git-credential.ts';
import type { TaskRow } from './task-table.ts';
import { tasksWith } from './task-table.ts';

/** The types of tasks, with their secrets in plain text, as on the wire. */
export const taskTypes = tasksWith(z.string(), GitCredential);

export type TaskType = keyof typeof taskTypes;

/** What a task of the type is to do, on the wire. */
export type TaskSpec<T extends TaskType = TaskType> = z.infer<(typeof taskTypes)[T]['spec']>;
/** What an attempt came to that succeeded. */
export type TaskResult<T extends TaskType = TaskType> = z.infer<(typeof taskTypes)[T]['result']>;
/** What may be known of an attempt that failed. */
export type TaskKnown<T extends TaskType = TaskType> = z.infer<(typeof taskTypes)[T]['known']>;

export function isTaskType(type: string): type is TaskType {
  return Object.hasOwn(taskTypes, type);
}

/** What the type says of itself, in the terms of all types. */
export function taskRow(type: TaskType): TaskRow {
  return taskTypes[type];
}

/** Capabilities that tasks need, in the words of an agent's hello. */
export const taskCapabilities: readonly string[] = [
  ...new Set(
    Object.keys(taskTypes)
      .filter(isTaskType)
      .map(taskRow)
      .flatMap(({ capability, gated }) => [
        ...(capability === null ? [] : [capability]),
        ...gated.map((it) => it.capability),
      ]),
  ),
];

/** Reads from a report or an observed record what `schema` describes; `undefined` if it has none of that form. */
export function resultIn<Schema extends z.ZodType>(
  { resultIn: place }: TaskRow,
  schema: Schema,
  report: { readonly result?: unknown },
): z.infer<Schema> | undefined {
  return schema.safeParse(place === 'fields' ? report : (report.result ?? {})).data;
}
