import { expect, test } from 'vitest';
import {
  isArchived,
  isSegment,
  laterSegment,
  readSegmentHead,
  segmentAt,
  segmentBytes,
  segmentFault,
  segmentOf,
} from '../../databases/wal.ts';

/** A segment with the head that PostgreSQL writes. */
function segment({ timeline = 1, position = 0x1ff, system = 7_712_655_308_283_863_073n } = {}): Buffer {
  const bytes = Buffer.alloc(segmentBytes);
  bytes.writeUInt16LE(0xd116, 0);
  bytes.writeUInt16LE(0x0002, 2);
  bytes.writeUInt32LE(timeline, 4);
  bytes.writeBigUInt64LE(BigInt(position) * BigInt(segmentBytes), 8);
  bytes.writeBigUInt64LE(system, 24);
  bytes.writeUInt32LE(segmentBytes, 32);
  return bytes;
}
const name = '0000000100000001000000FF';

test('the name of a segment says its timeline and its place, beyond the end of a log of 256', () => {
  expect(segmentOf(name)).toEqual({ timeline: 1, position: 0x1ff });
  expect(segmentAt({ timeline: 1, position: 0x200 })).toBe('000000010000000200000000');
  expect(segmentAt({ timeline: 0x1a, position: 0xff_ff_ff })).toBe('0000001A0000FFFF000000FF');
  for (const wrong of ['', '000000010000000100000100', name.toLowerCase(), `${name}.partial`])
    expect(() => segmentOf(wrong)).toThrow(RangeError);
});

test.each([
  [name, true, true],
  ['00000002.history', false, true],
  [`${name}.00000028.backup`, false, true],
  [`${name}.partial`, false, true],
  ['../etc/passwd', false, false],
  [`.${name}.growing`, false, false],
  [`${name}/..`, false, false],
  ['0000000100000001000001FF', false, false],
])('%s is a segment: %s, is archived: %s', (file, segmentIs, archived) => {
  expect([isSegment(file), isArchived(file)]).toEqual([segmentIs, archived]);
});

test('the later one of two segments goes on, also on another timeline, and never back', () => {
  const at = (timeline: number, position: number): string => segmentAt({ timeline, position });
  expect(laterSegment(undefined, at(1, 5))).toBe(at(1, 5));
  for (const earlier of [undefined, at(1, 4), at(2, 4), at(1, 5), 'F'.repeat(24)])
    expect(laterSegment(at(1, 5), earlier)).toBe(at(1, 5));
  expect(laterSegment(at(2, 5), at(1, 9))).toBe(at(2, 5));
  for (const later of [at(1, 6), at(2, 5), at(3, 0x200)]) expect(laterSegment(at(1, 5), later)).toBe(later);
});

test('the head of a segment is read', () => {
  expect(readSegmentHead(segment())).toEqual({
    systemIdentifier: '7712655308283863073',
    timeline: 1,
    position: 0x1ff,
    segmentBytes,
  });
  expect(readSegmentHead(Buffer.alloc(segmentBytes))).toBeUndefined();
  expect(readSegmentHead(Buffer.alloc(8))).toBeUndefined();
});

test.each<[string, Buffer, string | undefined]>([
  ['whole', segment(), undefined],
  ['the first of a timeline', segment({ timeline: 0 }), undefined],
  ['cut', segment().subarray(1), `has ${segmentBytes - 1} bytes, and not ${segmentBytes}`],
  ['empty', Buffer.alloc(segmentBytes), 'does not begin as a segment does'],
  ['of another place', segment({ position: 0x1fe }), 'has the content of another segment'],
  ['of a later timeline', segment({ timeline: 2 }), 'has the content of another segment'],
  ['of another cluster', segment({ system: 5n }), 'is of the cluster 5, and not of 7712655308283863073'],
])('a segment that is %s is told', (_, bytes, fault) => {
  expect(segmentFault(name, bytes, '7712655308283863073')).toBe(fault);
});
