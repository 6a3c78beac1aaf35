import { describe, expect, it } from 'vitest';
import { decodeAgentFrame, decodeControlFrame, encodeMessage } from '../../agent-protocol/codec.ts';
import { decodeData, encodeData, maxPayloadBytes } from '../../agent-protocol/data-frame.ts';
import { desiredDigest } from '../../agent-protocol/desired-digest.ts';

const bytes = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, 'hex'));

describe('text frames', () => {
  it('are read as they stand in the protocol of number 1', () => {
    const frame =
      '{"type":"report","seq":58,"full":false,"items":[{"id":"7c","generation":3,"phase":"running","ready":true,' +
      '"stable":false,"container_id":"f3","image_digest":"sha256:aa","restarts":0,"crash_loop":false}]}';
    expect(decodeAgentFrame(frame)).toEqual({
      kind: 'message',
      message: {
        type: 'report',
        seq: 58,
        full: false,
        items: [
          {
            id: '7c',
            generation: 3,
            phase: 'running',
            ready: true,
            stable: false,
            container_id: 'f3',
            image_digest: 'sha256:aa',
            restarts: 0,
            crash_loop: false,
          },
        ],
      },
    });
    expect(encodeMessage({ type: 'delta', from: 4181, to: 4190, put: [], drop: ['91'] })).toBe(
      '{"type":"delta","from":4181,"to":4190,"put":[],"drop":["91"]}',
    );
  });

  it('lose fields that are not known, also within items', () => {
    expect(decodeAgentFrame('{"type":"applied","revision":5,"later":{"x":1}}')).toEqual({
      kind: 'message',
      message: { type: 'applied', revision: 5 },
    });
    const decoded = decodeControlFrame(
      '{"type":"report_ack","seq":1,"rejected":[{"id":"a","why":"unavailable","x":1}]}',
    );
    expect(decoded).toMatchObject({ message: { rejected: [{ id: 'a', why: 'unavailable' }] } });
    expect(JSON.stringify(decoded)).not.toContain('"x"');
  });

  it('of a type that is not known say which', () => {
    expect(decodeAgentFrame('{"type":"telepathy","x":1}')).toEqual({ kind: 'unknown', type: 'telepathy' });
  });

  it('of the other direction are not known', () => {
    expect(decodeAgentFrame('{"type":"welcome"}')).toEqual({ kind: 'unknown', type: 'welcome' });
    expect(decodeControlFrame('{"type":"hello"}')).toEqual({ kind: 'unknown', type: 'hello' });
  });

  it.each([
    ['{', 'Text frame is no JSON'],
    ['[]', 'Message has no type'],
    ['null', 'Message has no type'],
    ['"beat"', 'Message has no type'],
    ['{"type":7}', 'Message has no type'],
    ['{"type":"applied"}', 'applied.revision'],
    ['{"type":"applied","revision":"5"}', 'applied.revision'],
    ['{"type":"applied","revision":0.5}', 'applied.revision'],
    ['{"type":"report","seq":1,"full":true,"items":[{"id":"a","phase":"running"}]}', 'report.items.0.generation'],
    [`{"type":"need_snapshot","why":"${'x'.repeat(201)}"}`, 'need_snapshot.why'],
  ])('that are malformed say where: %s', (frame, reason) => {
    const decoded = decodeAgentFrame(frame);
    expect(decoded.kind).toBe('malformed');
    expect(decoded).toMatchObject({ reason: expect.stringContaining(reason) });
  });

  it('cannot touch the prototypes of what they become', () => {
    const decoded = decodeAgentFrame('{"type":"applied","revision":5,"__proto__":{"polluted":true}}');
    expect(decoded).toEqual({ kind: 'message', message: { type: 'applied', revision: 5 } });
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });
});

describe('binary frames', () => {
  it('are a stream id of four bytes, flags of one, and the payload', () => {
    const frame = encodeData({ stream: 258, end: false, payload: Buffer.from('log') });
    expect(Buffer.from(frame).toString('hex')).toBe('00000102006c6f67');
    expect(decodeData(bytes('00000102016c6f67'))).toEqual({
      stream: 258,
      end: true,
      payload: bytes('6c6f67'),
    });
  });

  it('may be empty, as the last one of a stream is', () => {
    expect(decodeData(bytes('ffffffff01'))).toEqual({
      stream: 0xffffffff,
      end: true,
      payload: new Uint8Array(0),
    });
  });

  it('with flags that are not known are read all the same', () => {
    expect(decodeData(bytes('00000001fe41'))).toMatchObject({ end: false });
  });

  it('that are too short or too long are malformed', () => {
    expect(decodeAgentFrame(Buffer.alloc(4)).kind).toBe('malformed');
    expect(decodeAgentFrame(Buffer.alloc(5 + maxPayloadBytes)).kind).toBe('data');
    expect(decodeAgentFrame(Buffer.alloc(6 + maxPayloadBytes)).kind).toBe('malformed');
    expect(() => encodeData({ stream: 1, end: false, payload: Buffer.alloc(maxPayloadBytes + 1) })).toThrow(RangeError);
  });
});

describe('the digest of a desired set', () => {
  it('does not depend on the order of its items', () => {
    const a = { id: 'a', generation: 1, spec_hash: 'x' };
    const b = { id: 'b', generation: 2, spec_hash: 'y' };
    expect(desiredDigest([a, b])).toBe(desiredDigest([b, a]));
    expect(desiredDigest([a, b])).toBe('131d9e4ddac1b7a063cc386ebfcd40ec59883240694d3940a6567dbceae627dc');
  });

  it('changes with each generation and hash', () => {
    const item = { id: 'a', generation: 1, spec_hash: 'x' };
    expect(desiredDigest([{ ...item, generation: 2 }])).not.toBe(desiredDigest([item]));
    expect(desiredDigest([{ ...item, spec_hash: 'y' }])).not.toBe(desiredDigest([item]));
  });
});
