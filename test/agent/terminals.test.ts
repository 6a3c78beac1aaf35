import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { WireAssignment } from '../../agent-protocol/assignment.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import type { ExecParams, TerminalParams } from '../../agent-protocol/messages.ts';
import { decodeTerminalOutput, encodeTerminal } from '../../agent-protocol/terminal-stream.ts';
import type { TerminalInput } from '../../agent-protocol/terminal-stream.ts';
import type { ServerShells } from '../../agent/machine/server-shells.ts';
import { mockExec } from '../../agent/runtime/mock/mock-exec.ts';
import { mostTerminals } from '../../agent/terminals.ts';
import { settle } from '../harness/fake-clock.ts';
import { AgentWorld, service } from './agent-world.ts';

let world: AgentWorld;
let item: WireAssignment;

beforeEach(async () => {
  world = await AgentWorld.create();
  await world.start();
});

afterEach(() => world[Symbol.asyncDispose]());

async function running(image = 'web:1'): Promise<void> {
  item = service({}, { image });
  await world.snapshot(item);
  await world.until('running', () => world.container(item)?.state === 'running');
}

/** A user at a terminal. */
function terminal(changes: Partial<ExecParams> = {}) {
  return terminalAt({ kind: 'exec', assignment: item.id, cols: 80, rows: 24, ...changes });
}

function terminalAt(params: TerminalParams) {
  const stop = new AbortController();
  const waiting: Uint8Array[] = [];
  let wake = Promise.withResolvers<void>();
  let isOver = false;
  const left = Promise.withResolvers<void>();
  const incoming: AsyncIterableIterator<Uint8Array> = {
    async next() {
      for (;;) {
        const value = waiting.shift();
        if (value !== undefined) return { done: false, value };
        if (isOver) return { done: true, value: undefined };
        await wake.promise;
        wake = Promise.withResolvers();
      }
    },
    async return() {
      left.resolve();
      return { done: true, value: undefined };
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
  const send = (it: TerminalInput): void => {
    waiting.push(encodeTerminal(it));
    wake.resolve();
  };
  let text = '';
  let code: number | undefined;
  const end = (async () => {
    for await (const it of decodeTerminalOutput(world.agent.backend.stream(params, incoming, stop.signal)))
      if (it.type === 'exit') code = it.code;
      else text += Buffer.from(it.data).toString();
    return code;
  })();
  end.catch(() => undefined);
  return {
    stop,
    end,
    left: left.promise,
    text: () => text,
    send,
    type: (line: string) => send({ type: 'data', data: Buffer.from(line) }),
    close() {
      isOver = true;
      wake.resolve();
    },
  };
}

describe('a terminal', () => {
  test('runs a shell in the container of its instance, and ends with its code', async () => {
    await running();
    const user = terminal();
    user.send({ type: 'resize', cols: 100, rows: 30 });
    user.type('stty size\r');
    user.type('echo hello\r');
    await settle(30);
    expect(user.text()).toContain('30 100\r\n');
    expect(user.text()).toContain('\r\nhello\r\n');
    user.type('exit 3\r');
    expect(await user.end).toBe(3);
    await user.left;
  });

  test('prefers bash, and runs the shell or command that is named', async () => {
    world.engine.addImage('full:1', { local: true, runs: { installed: ['/bin/sh', '/bin/bash', '/bin/zsh', 'cat'] } });
    await running('full:1');
    const execs = (): string[] => world.engine.execs.map(({ command }) => command.join(' '));
    for (const changes of [{}, { shell: '/bin/zsh' }, { command: ['cat', '-u'] as [string, ...string[]] }]) {
      const user = terminal(changes);
      await settle(30);
      user.stop.abort(new CallError('stopped', 'The reader left'));
      await expect(user.end).rejects.toMatchObject({ code: 'stopped' });
    }
    expect(execs()).toEqual(['/bin/bash', '/bin/zsh', 'cat -u']);
  });

  test('in a container without a shell says what to do', async () => {
    world.engine.addImage('scratch:1', { local: true, runs: { installed: ['/server'] } });
    await running('scratch:1');
    await expect(terminal().end).rejects.toMatchObject({
      code: 'no_program',
      message:
        'The container has none of /bin/bash, /bin/ash, /bin/sh, /bin/busybox, /busybox/sh, as images without a system do: name a program that it has, or ' +
        'add a shell to the image',
    });
    await expect(terminal({ shell: '/bin/zsh' }).end).rejects.toMatchObject({
      code: 'no_program',
      message: 'The container has no program /bin/zsh',
    });
  });

  test('of an instance that does not run, or that the agent does not have, is refused', async () => {
    await running();
    for (const assignment of ['another', world.container(item)!.id, world.container(item)!.name])
      await expect(terminal({ assignment }).end).rejects.toMatchObject({ code: 'not_running' });
    await world.snapshot({ ...item, generation: 2, run: 'stopped' });
    await world.until('stopped', () => world.container(item) === undefined);
    await expect(terminal().end).rejects.toMatchObject({ code: 'not_running' });
  });

  test.each(['its user leaves', 'its container ends', 'its input is no input'])(
    'ends its process when %s',
    async (how) => {
      await running();
      const user = terminal();
      await settle(30);
      const [process] = world.engine.execs;
      if (how === 'its user leaves') user.stop.abort(new CallError('stopped', 'The reader left'));
      else if (how === 'its container ends') world.container(item)!.exit(1, { asked: false });
      else user.send({ type: 'data', data: new Uint8Array(0) });
      if (how === 'its input is no input') user.close();
      const end = await user.end.catch((error: unknown) => error);
      if (how === 'its user leaves') expect(end).toMatchObject({ code: 'stopped' });
      expect(await process!.exited).toBeDefined();
      await user.left;
    },
  );

  test('beyond the bound is refused, and the end of another makes room', async () => {
    await running();
    const open = Array.from({ length: mostTerminals }, () => terminal());
    await settle(100);
    await expect(terminal().end).rejects.toMatchObject({
      code: 'too_many',
      message: `At most ${mostTerminals} terminals on one server at once: close one first`,
    });
    open[0]!.type('exit 0\r');
    await open[0]!.end;
    await settle(10);
    const another = terminal();
    another.type('exit 4\r');
    expect(await another.end).toBe(4);
    for (const user of open) user.stop.abort(new CallError('stopped', 'The reader left'));
    await Promise.allSettled(open.map((user) => user.end));
  });
});

describe('a terminal of the server', () => {
  const params: TerminalParams = { kind: 'shell', cols: 80, rows: 24 };

  /** Shells that are those of the mock engine, with the program that was asked for. */
  async function allowed(): Promise<string[]> {
    await world.stop();
    const opened: string[] = [];
    const serverShells: ServerShells = {
      async open({ shell = '/bin/sh', size }, signal) {
        opened.push(shell);
        return mockExec(world.container(item), { command: [shell], tty: size }, signal);
      },
    };
    await world.start({ serverShells });
    await running();
    return opened;
  }

  test('runs a shell of the machine, with its size and code', async () => {
    const opened = await allowed();
    const user = terminalAt(params);
    user.send({ type: 'resize', cols: 100, rows: 30 });
    user.type('stty size\r');
    await settle(30);
    expect(user.text()).toContain('30 100\r\n');
    user.type('exit 3\r');
    expect(await user.end).toBe(3);
    await user.left;
    const named = terminalAt({ ...params, shell: '/bin/bash' });
    await named.end.catch(() => undefined);
    expect(opened).toEqual(['/bin/sh', '/bin/bash']);
  });

  test('has its place among those of the instances', async () => {
    await allowed();
    const open = Array.from({ length: mostTerminals }, (_, n) => (n % 2 === 0 ? terminal() : terminalAt(params)));
    await settle(100);
    for (const one of [terminal(), terminalAt(params)])
      await expect(one.end).rejects.toMatchObject({ code: 'too_many' });
    for (const user of open) user.stop.abort(new CallError('stopped', 'The reader left'));
    await Promise.allSettled(open.map((user) => user.end));
  });

  test('is refused by an agent that was started without', async () => {
    await expect(terminalAt(params).end).rejects.toMatchObject({
      code: 'forbidden',
      message: 'The agent of the server allows no terminals of the server: start it without --no-server-terminals',
    });
  });
});
