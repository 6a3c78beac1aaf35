import { CompareResult, CompareTarget, Range } from 'etcd3';
import type { ICompare, IEvent, IKeyValue, IRequestOp } from 'etcd3';
import { revision } from '../revision.ts';
import type { Change, Entry, Guard, KeyRange, Write } from '../store.ts';

export function toEntry(kv: IKeyValue): Entry {
  return {
    key: kv.key.toString(),
    value: kv.value.toString(),
    createRevision: revision(kv.create_revision),
    modRevision: revision(kv.mod_revision),
  };
}

export function toChange(event: IEvent): Change {
  // The typings miss that an absent message is null.
  const previous = event.prev_kv as IKeyValue | null;
  return {
    key: event.kv.key.toString(),
    revision: revision(event.kv.mod_revision),
    ...(event.type === 'Put' ? { value: event.kv.value.toString() } : {}),
    ...(previous === null ? {} : { previous: previous.value.toString() }),
  };
}

export function toCompare(guard: Guard): ICompare {
  const key = Buffer.from(guard.key);
  switch (guard.is) {
    case 'absent':
      return { key, target: CompareTarget.Create, result: CompareResult.Equal, create_revision: 0 };
    case 'present':
      return { key, target: CompareTarget.Create, result: CompareResult.Greater, create_revision: 0 };
    case 'at':
      return { key, target: CompareTarget.Mod, result: CompareResult.Equal, mod_revision: guard.revision };
  }
}

export function toOperation(write: Write): IRequestOp {
  if ('delete' in write) return { request_delete_range: { key: Buffer.from(write.delete) } };
  const put = { key: Buffer.from(write.put), value: Buffer.from(write.value) };
  return { request_put: write.lease === undefined ? put : { ...put, lease: write.lease } };
}

/** First key and upper bound of a range, as etcd takes them. */
export function toBounds(range: KeyRange): { key: Buffer; range_end: Buffer } {
  const { start, end } = Range.prefix(range.prefix);
  return { key: start, range_end: end };
}

/** The least key above `key`. */
export function keyAfter(key: string): Buffer {
  return Buffer.from(`${key}\0`);
}
