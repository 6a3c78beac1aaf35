import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { labels } from '../../agent/runtime/runtime.ts';
import { CommandLine } from '../harness/command-line.ts';
import type { Running } from '../harness/command-line.ts';
import { containersWith, docker, removeEverythingOf } from '../harness/engine.ts';
import { freePort } from '../harness/program.ts';
import { longTag } from '../layer-report.ts';

describe('what an agent left whose data is gone', () => {
  let cli: CommandLine;
  let examplePort: number;
  let listen: string;
  const servers: string[] = [];
  let running: Running | undefined;

  beforeAll(async () => {
    cli = await CommandLine.open();
    examplePort = await freePort();
    listen = `127.0.0.1:${await freePort()}`;
  });
  afterAll(async () => {
    await running?.interrupt();
    for (const server of servers) await removeEverythingOf(server);
    await cli[Symbol.asyncDispose]();
  });

  /** `make dev` with a data directory of its own. */
  async function dev(data: string, ...flags: string[]): Promise<{ server: string; out: string }> {
    const where = ['--listen', listen, '--data', join(cli.home, data), '--example-port', String(examplePort)];
    running = cli.start(['dev', ...where, ...flags]);
    await running.prints('Stop with Ctrl-C');
    const out = running.out();
    const server = /Agent: server "local" \(([0-9a-f-]+)\)/.exec(out)?.[1] ?? '';
    servers.push(server);
    return { server, out };
  }

  const answer = async () => (await fetch(`http://127.0.0.1:${examplePort}/`)).json();
  const removeContainers = async (server: string) => {
    const ids = await containersWith(labels.server, server);
    await docker('rm', '--force', ...ids);
    return ids.length;
  };

  it(
    'is shown, is not mistaken for the new application, and goes by one command',
    { tags: [longTag], timeout: 240_000 },
    async () => {
      const first = await dev('first');
      expect(first.out).toContain('is running on server "local"');
      expect(await cli.run(['agent', 'clean', '--only', first.server, '--yes'])).toMatchObject({
        code: 1,
        err: `Nothing is left here of server ${first.server}, or its agent runs on this machine\n`,
      });
      await running?.interrupt();
      expect(await answer()).toMatchObject({ message: 'Hello from Setpoint' });

      const second = await dev('second');
      expect(second.out).toContain('Left here by agents that do not run on this machine');
      expect(second.out).toMatch(new RegExp(`${first.server} +1 +1 +\\d+ +${examplePort}\\n`));
      expect(second.out).toContain('The example is not deployed: ');
      expect(second.out).toContain(
        `Port ${examplePort} of the server is taken by rules that the agent of another server (${first.server.replaceAll('-', '').slice(0, 12)}…) left`,
      );

      const shown = await cli.run(['agent', 'clean', '--only', first.server, '--dry-run']);
      expect(shown).toMatchObject({ code: 0, err: '' });
      expect(shown.out).toMatch(new RegExp(`${first.server} +1 +1 +\\d+ +${examplePort}\\n$`));
      expect(await answer()).toMatchObject({ message: 'Hello from Setpoint' });
      const unsure = await cli.run(['agent', 'clean', '--only', first.server]);
      expect(unsure.err).toContain('There is no terminal to answer at: repeat the command with --yes');
      expect(await containersWith(labels.server, first.server)).toHaveLength(1);

      expect((await cli.run(['agent', 'clean', '--only', first.server, '--yes'])).code).toBe(0);
      expect(await containersWith(labels.server, first.server)).toEqual([]);
      expect(await docker('network', 'ls', '--quiet', '--filter', `label=${labels.server}=${first.server}`)).toBe('');
      expect(await docker('images', '--quiet', '--filter', `label=${labels.server}=${first.server}`)).toBe('');
      expect((await cli.run(['deploy', 'hello'])).out).toContain('succeeded');
      expect(await answer()).toMatchObject({ message: 'Hello from Setpoint' });
      await running?.interrupt();
    },
  );

  it('gives its ports to an agent that is asked to take them', { tags: [longTag], timeout: 240_000 }, async () => {
    const third = await dev('third', '--take-over-ports');
    expect(third.out).toContain('is running on server "local"');
    const former = servers.at(-2) ?? '';
    expect(await removeContainers(former)).toBe(1);
    expect(await answer()).toMatchObject({ message: 'Hello from Setpoint' });
    expect(await removeContainers(third.server)).toBe(1);
    await running?.interrupt();
  });
});
