import { mkdir, mkdtemp, rename, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { holdExclusively } from '../../../agent/machine/exclusive.ts';

describe('a data directory', () => {
  let folder: string;
  beforeEach(async () => void (folder = await mkdtemp(join(tmpdir(), 'setpoint-hold-'))));
  afterEach(() => rm(folder, { recursive: true, force: true }));

  it('belongs to one agent at a time, by whatever path it is named', async () => {
    const held = await holdExclusively(folder);
    await symlink(folder, `${folder}-link`);
    for (const path of [folder, `${folder}/`, `${folder}-link`])
      await expect(holdExclusively(path)).rejects.toThrow(`Another agent uses the data directory ${folder}`);
    await rm(`${folder}-link`);
    await held[Symbol.asyncDispose]();
    await using again = await holdExclusively(folder);
    expect(again).toBeDefined();
  });

  it('is held by itself, and not by its path, at which another machine has another one', async () => {
    await using held = await holdExclusively(folder);
    await rename(folder, `${folder}-moved`);
    await mkdir(folder);
    await using other = await holdExclusively(folder);
    expect([held, other]).toHaveLength(2);
    await expect(holdExclusively(`${folder}-moved`)).rejects.toThrow('Another agent uses the data directory');
    await rm(`${folder}-moved`, { recursive: true });
  });
});
