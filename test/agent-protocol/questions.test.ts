import { describe, expect, it } from 'vitest';
import { ControlPlane } from '../../agent/tasks/control-plane.ts';
import { RuntimeFailure } from '../../agent/runtime/runtime.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import { encodeMessage } from '../../agent-protocol/codec.ts';
import type { AskParams } from '../../agent-protocol/messages.ts';
import { bounds, timing } from '../../agent-protocol/timing.ts';
import { FakeClock, settle } from '../harness/fake-clock.ts';
import { protocolEnds } from '../harness/protocol-ends.ts';
import type { Ends } from '../harness/protocol-ends.ts';

const never = new AbortController().signal;
const parts: AskParams = { about: 'upload.parts', assignment: 'a', parts: [1, 2] };
const download: AskParams = { about: 'download', assignment: 'a' };

async function up(): Promise<Ends & { clock: FakeClock }> {
  const clock = new FakeClock();
  const ends = protocolEnds(clock);
  await settle(30);
  expect(ends.host.isUp).toBe(true);
  return { ...ends, clock };
}

/** What the control plane answered, by the id of the question. */
function answersTo({ pair }: Ends, id: number) {
  return pair.control.messages.filter((message) => message.type === 'answer' && message['id'] === id);
}

describe('questions of an agent', () => {
  it('are answered by the control plane', async () => {
    const { agent, host } = await up();
    host.onAsk = (params) => Promise.resolve({ addresses: [`of ${params.about}`] });
    await expect(agent.ask(parts, never)).resolves.toEqual({ addresses: ['of upload.parts'] });
    await expect(agent.ask(download, never)).resolves.toEqual({ addresses: ['of download'] });
    expect(host.asked).toEqual([parts, download]);
  });

  it('are refused with its words, and with none of its other errors', async () => {
    const { agent, host } = await up();
    host.onAsk = () => Promise.reject(new CallError('not_assigned', 'Not wanted any more'));
    await expect(agent.ask(parts, never)).rejects.toMatchObject({
      code: 'not_assigned',
      message: 'Not wanted any more',
    });
    host.onAsk = () => Promise.reject(new TypeError('x is not a function'));
    await expect(agent.ask(parts, never)).rejects.toMatchObject({
      code: 'failed',
      message: expect.not.stringContaining('function'),
    });
  });

  it.each([
    ['of a later release', { about: 'weather', assignment: 'a' }, 'unsupported', 'upgrade the control plane'],
    ['without a part', { about: 'upload.parts', assignment: 'a', parts: [] }, 'invalid', 'parts'],
    ['of part 0', { about: 'upload.parts', assignment: 'a', parts: [0] }, 'invalid', 'parts'],
    ['of too many parts', { about: 'upload.parts', assignment: 'a', parts: Array(101).fill(1) }, 'invalid', 'parts'],
  ])('%s are refused, and the session goes on', async (_, params, code, words) => {
    const ends = await up();
    ends.control.receive(encodeMessage({ type: 'ask', id: 77, params } as never)); // as another release sends it
    await settle(30);
    expect(answersTo(ends, 77)).toMatchObject([{ error: { code, message: expect.stringContaining(words) } }]);
    expect([ends.host.asked, ends.host.ends]).toEqual([[], []]);
    await expect(ends.agent.ask(parts, never)).resolves.toBeDefined();
  });

  it('are bounded in number on both sides', async () => {
    const ends = await up();
    const { agent, control, host, pair } = ends;
    host.onAsk = () => new Promise(() => undefined);
    const open = Array.from({ length: bounds.calls }, () => agent.ask(parts, never));
    await expect(agent.ask(parts, never)).rejects.toMatchObject({ code: 'too_many' });
    await settle(50);
    expect(host.asked).toHaveLength(bounds.calls);
    control.receive(encodeMessage({ type: 'ask', id: 999, params: parts }));
    await settle(30);
    expect(answersTo(ends, 999)).toMatchObject([{ error: { code: 'too_many' } }]);
    expect(host.asked).toHaveLength(bounds.calls);
    pair.cut();
    await Promise.allSettled(open);
  });

  it('that took too long end at the control plane, and there is room for others', async () => {
    const { agent, host, clock } = await up();
    const reasons: unknown[] = [];
    host.onAsk = (_, signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          reasons.push(signal.reason);
          reject(signal.reason as Error);
        });
      });
    const outcomes = Array.from({ length: bounds.calls }, () =>
      expect(agent.ask(parts, never)).rejects.toMatchObject({ code: 'timeout' }),
    );
    await settle(30);
    await clock.advance(timing.askMs + 1);
    await Promise.all(outcomes);
    expect(reasons).toHaveLength(bounds.calls);
    host.onAsk = () => Promise.resolve('now');
    await expect(agent.ask(parts, never)).resolves.toBe('now');
  });

  it('end at the agent if the control plane never answers', async () => {
    const { agent, host, clock } = await up();
    host.onAsk = () => new Promise(() => undefined);
    const outcome = expect(agent.ask(parts, never)).rejects.toMatchObject({ code: 'timeout' });
    await settle();
    await clock.advance(2 * timing.askMs + 1);
    await outcome;
  });

  it('end with their signal', async () => {
    const { agent, host } = await up();
    host.onAsk = () => new Promise(() => undefined);
    const stop = new AbortController();
    const outcome = expect(agent.ask(parts, stop.signal)).rejects.toThrow('enough');
    stop.abort(new Error('enough'));
    await outcome;
    await expect(agent.ask(parts, stop.signal)).rejects.toThrow('enough');
  });

  it('fail as away when the session ends in the middle, and what is done for them ends', async () => {
    const { agent, host, pair } = await up();
    const aborted = Promise.withResolvers<unknown>();
    host.onAsk = (_, signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          aborted.resolve(signal.reason);
          reject(signal.reason as Error);
        });
      });
    const outcome = expect(agent.ask(parts, never)).rejects.toMatchObject({ code: 'away' });
    await settle(30);
    pair.cut();
    await outcome;
    await expect(aborted.promise).resolves.toMatchObject({ code: 'away' });
    await expect(agent.ask(parts, never)).rejects.toMatchObject({ code: 'away' });
  });

  it('are not answered twice if they come twice while they are open', async () => {
    const ends = await up();
    const first = Promise.withResolvers<unknown>();
    ends.host.onAsk = () => first.promise;
    for (let n = 0; n < 2; n++) ends.control.receive(encodeMessage({ type: 'ask', id: 5, params: parts }));
    await settle(30);
    first.resolve('once');
    await settle(30);
    expect([ends.host.asked.length, answersTo(ends, 5)]).toEqual([1, [expect.objectContaining({ ok: 'once' })]]);
  });

  it('count as every other message does: a flood of them ends the session', async () => {
    const { control, host } = await up();
    for (let id = 1; id <= bounds.messagesPer10s + 1; id++)
      control.receive(encodeMessage({ type: 'ask', id, params: { about: 'weather' } as never }));
    await settle(30);
    expect(host.ends).toEqual([expect.stringMatching(/messages/i)]);
  });

  it('that were answered after the agent gave them up are dropped', async () => {
    const { agent, host, agentEnds } = await up();
    const late = Promise.withResolvers<unknown>();
    host.onAsk = () => late.promise;
    const stop = new AbortController();
    const outcome = expect(agent.ask(parts, stop.signal)).rejects.toThrow('enough');
    await settle(30);
    stop.abort(new Error('enough'));
    await outcome;
    late.resolve('too late');
    await settle(30);
    expect(agentEnds).toEqual([]);
  });
});

describe('the addresses of a task', () => {
  const session = (answer: () => Promise<unknown>) => ({ ask: answer });
  const asked = (control: ControlPlane) => control.addresses(parts, never);

  it('are those that the control plane signs', async () => {
    const control = new ControlPlane();
    control.entered(session(() => Promise.resolve({ addresses: ['https://s3.test/1', 'https://s3.test/2'] })));
    await expect(asked(control)).resolves.toEqual(['https://s3.test/1', 'https://s3.test/2']);
  });

  it('are asked for again while the control plane is away, or cannot sign', async () => {
    const control = new ControlPlane();
    await expect(asked(control)).rejects.toMatchObject({ code: 'away' });
    for (const code of ['away', 'timeout', 'too_many', 'failed', 'secret_unavailable']) {
      control.entered(session(() => Promise.reject(new CallError(code, 'Not now'))));
      const found = await asked(control).catch((error: unknown) => error);
      expect(found).toMatchObject({ code });
      expect(found).not.toBeInstanceOf(RuntimeFailure);
    }
    control.left();
    await expect(asked(control)).rejects.toMatchObject({ code: 'away' });
  });

  it('are not asked for again when the task is not wanted any more', async () => {
    const control = new ControlPlane();
    control.entered(session(() => Promise.reject(new CallError('not_assigned', 'Not wanted any more'))));
    const found = await asked(control).catch((error: unknown) => error);
    expect(found).toBeInstanceOf(RuntimeFailure);
    expect(found).toMatchObject({ code: 'transfer_failed', retryable: false, message: 'Not wanted any more' });
  });

  it('have a form, and an answer of another one names the side to upgrade', async () => {
    const control = new ControlPlane();
    control.entered(session(() => Promise.resolve({ addresses: [] })));
    await expect(asked(control)).rejects.toMatchObject({
      code: 'malformed',
      message: expect.stringContaining('upgrade the control plane'),
    });
  });
});
