import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { reportOf } from '../../agent-protocol/assignment.ts';
import { agentCapabilities } from '../../agent-protocol/messages.ts';
import { tasksWith } from '../../agent-protocol/task-table.ts';
import { isTaskType, resultIn, taskRow, taskTypes } from '../../agent-protocol/task-types.ts';

const types = Object.keys(taskTypes).filter(isTaskType);

describe.each(types)('the row of the task type %s in agent-protocol/task-table.ts', (type) => {
  const row = taskRow(type);

  it('has a spec of its name, whose secrets and gated fields are fields of it', () => {
    const { shape } = taskTypes[type].spec;
    expect(shape.type.value, 'the type in spec').toBe(type);
    const fields = [...row.secrets, ...row.gated].map(({ field }) => field);
    expect(Object.keys(shape), 'spec has what secrets and gated name').toEqual(expect.arrayContaining(fields));
    const attempt = { deadline_seconds: shape.deadline_seconds.parse(1), attempt: shape.attempt.parse(undefined) };
    expect(attempt, 'what controllers/task decides').toEqual({ deadline_seconds: 1, attempt: 1 });
  });

  it('names the fields that hold secrets, which are sealed in the store', () => {
    const open = Object.entries(taskTypes[type].spec.shape);
    const closed = new Map<string, z.ZodType>(Object.entries(tasksWith(z.never(), z.never())[type].spec.shape));
    const takes = (field: z.ZodType | undefined) => field?.safeParse({ NAME: 'secret' }).success === true;
    const secret = open.filter(([name, field]) => takes(field) && !takes(closed.get(name))).map(([name]) => name);
    expect(row.secrets.map(({ field }) => field).toSorted(), 'secrets').toEqual(secret.toSorted());
  });

  it('knows of a failed attempt nothing that must be known, and only what a result has, too', () => {
    expect(row.known.safeParse({}).success, 'every field of known is optional').toBe(true);
    expect(Object.keys(row.result.shape)).toEqual(expect.arrayContaining(Object.keys(row.known.shape)));
  });

  it('has results that a report carries', () => {
    const result = Object.fromEntries(
      Object.entries(row.result.shape).map(([name, field]) => [
        name,
        ['x', 1, true].find((value) => field.safeParse(value).success),
      ]),
    );
    const report = reportOf(row, result as never); // made of its schema
    expect(resultIn(row, row.result, report), 'fields of the result, if it is not in `result`').toEqual(result);
  });

  it('has a capability, as agents of earlier releases do not know it', async () => {
    const needed = [row.capability ?? [], row.gated.map(({ capability }) => capability)].flat();
    if (type !== 'build') expect(row.capability, 'its capability').not.toBeNull();
    expect(agentCapabilities).toEqual(expect.arrayContaining(needed));
    const versions = await readFile(new URL('../../agent-protocol/VERSIONS.md', import.meta.url), 'utf8');
    for (const capability of needed)
      expect(versions, `Describe the capability ${capability} in agent-protocol/VERSIONS.md`).toContain(
        `\`${capability}\``,
      );
  });
});
