import { z } from 'zod';
import { isStaying } from '../../store/resource.ts';
import type { TerminalParams } from '../../agent-protocol/messages.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import { decodeTerminalOutput, encodeTerminal } from '../../agent-protocol/terminal-stream.ts';
import type { TerminalInput } from '../../agent-protocol/terminal-stream.ts';
import { projectIdOf } from '../endpoint/subject.ts';
import type { Channel, Message } from './channel.ts';
import { closeCode } from './close-code.ts';
import { readyNow } from './live.ts';
import { defineStream } from './stream.ts';
import type { StreamContext } from './stream.ts';
import { placed } from '../workloads/terminal-places.ts';

/** A terminal ends if nothing is typed and nothing is shown for this time … */
const idleMs = 15 * 60_000;
/** … and after this time in any case. */
const mostMs = 4 * 3_600_000;

const Cells = z.int().min(1).max(1000);
const Input = z.discriminatedUnion('type', [
  z.object({ type: z.literal('input'), data: z.string() }),
  z.object({ type: z.literal('resize'), cols: Cells, rows: Cells }),
]);

const route = 'WS /ws/terminal/:sessionId';

export const terminal = defineStream({
  path: '/ws/terminal/:sessionId',
  summary: 'A terminal: input, resize and binary frames to it; output, exit and error frames from it',
  query: z.object({ output: z.enum(['text', 'binary']).default('text') }),
  reads: true,
  async run(ctx, { params, query, channel, rest }) {
    const { view, principal, tenant, terminals, audit, request, clock } = ctx;
    const attached = await terminals.attach(view, principal, params.get('sessionId') ?? '');
    if (attached === undefined) {
      channel.close(closeCode.used, 'the terminal was used or has expired');
      return 'used';
    }
    const began = clock.monotonic();
    const counted = { in: 0, out: 0 };
    try {
      const { place } = attached;
      const { it, permission, about, params: runs, shown } = placed(view, place);
      if (!isStaying(it)) {
        channel.close(closeCode.gone, 'gone');
        return 'gone';
      }
      // A caller who may no longer make a terminal here may not keep this one.
      rest({ permission, it });
      if (channel.signal.aborted) return 'not allowed';
      const projectId = projectIdOf(it);
      const asked = { tenant, view, route, request, caller: principal, ...(projectId !== undefined && { projectId }) };
      await audit.opened(asked, about);
      channel.send({ ...readyNow(clock), ...shown });
      const reason = await converse(ctx, place.server_id, runs, channel, query.output === 'binary', counted);
      const seconds = Math.round((clock.monotonic() - began) / 1000);
      await audit.closed(asked, about, { seconds, bytes_in: counted.in, bytes_out: counted.out, reason });
      return reason;
    } finally {
      await attached.release();
    }
  },
});

/** Passes bytes in both directions until the terminal is over. Returns the reason. */
async function converse(
  { agents, tenant, clock }: StreamContext,
  server: string,
  params: TerminalParams,
  channel: Channel,
  isBinary: boolean,
  counted: { in: number; out: number },
): Promise<string> {
  let activeAt = clock.monotonic();
  let over: string | undefined;
  const end = (reason: string): void => {
    over ??= reason;
    channel.close(closeCode.ended, reason);
  };
  using timers = new DisposableStack();
  timers.defer(clock.timer(mostMs, () => end('open for 4 hours')));
  let cancelIdle = (): void => undefined;
  const watchIdle = (ms: number): void => {
    cancelIdle = clock.timer(ms, () => {
      const left = activeAt + idleMs - clock.monotonic();
      if (left <= 0) end('idle for 15 minutes');
      else watchIdle(left);
    });
  };
  watchIdle(idleMs);
  timers.defer(() => cancelIdle());

  async function* outgoing(): AsyncGenerator<Uint8Array> {
    for await (const message of channel.messages()) {
      const input = inputOf(message);
      if (input === 'malformed') {
        over ??= 'malformed';
        channel.close(closeCode.malformed, 'a message is not one of a terminal');
        return;
      }
      if (input === undefined) continue;
      activeAt = clock.monotonic();
      if (input.type === 'data') counted.in += input.data.length;
      yield encodeTerminal(input);
    }
  }

  const decoder = new TextDecoder();
  try {
    const output = agents.duplex(tenant, server, params, outgoing(), { signal: channel.signal });
    for await (const it of decodeTerminalOutput(output)) {
      if (it.type === 'exit') {
        channel.send({ type: 'exit', code: it.code ?? null });
        return 'exit';
      }
      activeAt = clock.monotonic();
      counted.out += it.data.length;
      if (isBinary) channel.sendBytes(it.data);
      else {
        const data = decoder.decode(it.data, { stream: true });
        if (data !== '') channel.send({ type: 'output', data });
      }
      await channel.drained();
    }
    return 'ended';
  } catch (error) {
    if (channel.signal.aborted) return over ?? 'closed';
    if (!(error instanceof CallError)) throw error;
    channel.send({ type: 'error', code: error.code, message: error.message });
    return error.code;
  }
}

/** Returns `undefined` for a message of a type that is not known. */
function inputOf({ data, isBinary }: Message): TerminalInput | 'malformed' | undefined {
  if (isBinary) return { type: 'data', data };
  let json: unknown;
  try {
    json = JSON.parse(data.toString());
  } catch {
    return 'malformed';
  }
  if (typeof json !== 'object' || json === null || !('type' in json)) return 'malformed';
  if (json.type !== 'input' && json.type !== 'resize') return undefined;
  const parsed = Input.safeParse(json);
  if (!parsed.success) return 'malformed';
  return parsed.data.type === 'input' ? { type: 'data', data: Buffer.from(parsed.data.data) } : parsed.data;
}
