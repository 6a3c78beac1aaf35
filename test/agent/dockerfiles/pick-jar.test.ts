import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { generateDockerfile } from '../../../agent/dockerfiles/generate.ts';
import { repositoryReader } from '../../../agent/tasks/repository-reader.ts';

const runFile = promisify(execFile);
const settings = { port: 3000, hasCommand: false, appType: 'web', buildArgs: [], buildSecrets: [], cacheMounts: false };

describe('the jar that runs', () => {
  /** Runs the step that finds it over a folder with these jars. */
  async function picked(names: readonly string[]): Promise<{ jar: string | undefined; said: string }> {
    const folder = await realpath(await mkdtemp(join(tmpdir(), 'setpoint-jars-')));
    try {
      await writeFile(join(folder, 'pom.xml'), '<artifactId>maven-assembly-plugin</artifactId>');
      const { text } = await generateDockerfile(repositoryReader(folder), settings);
      const step = /^RUN (find target.*)$/m.exec(text)?.[1] ?? '';
      await mkdir(join(folder, 'target'));
      for (const name of names) await writeFile(join(folder, 'target', name), name);
      const script = step.replaceAll('/tmp/jars', 'jars').replaceAll('/app.jar', 'app.jar');
      const { stderr } = await runFile('sh', ['-c', script], { cwd: folder }).catch(
        (error: unknown) => error as { stderr: string },
      );
      return { jar: await readFile(join(folder, 'app.jar'), 'utf8').catch(() => undefined), said: stderr };
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  test.each<[string, readonly string[], string]>([
    ['alone', ['x.jar'], 'x.jar'],
    ['beside what is not to run', ['x.jar', 'x-plain.jar', 'original-x.jar', 'x-sources.jar'], 'x.jar'],
    ['of the assembly plugin', ['x.jar', 'x-jar-with-dependencies.jar'], 'x-jar-with-dependencies.jar'],
    ['of Ktor and Shadow', ['x.jar', 'x-all.jar'], 'x-all.jar'],
  ])('is found: %s', async (_, names, jar) => expect(await picked(names)).toEqual({ jar, said: '' }));

  test('is named with the others if there are several', async () => {
    const { jar, said } = await picked(['a.jar', 'b.jar']);
    expect(jar).toBeUndefined();
    expect(said).toMatch(/^2 jars in target, one is expected:.*target\/a\.jar/s);
    expect((await picked([])).said).toMatch(/^0 jars in target/);
  });
});
