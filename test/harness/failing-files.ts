import { open } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';

/**
 * Makes one call of a method of any open file fail, as a full disk does: the next one, or the one after `passing` more.
 * What it has done by then stays done.
 */
export async function failNextOf(method: 'datasync' | 'sync' | 'truncate' | 'write', passing = 0): Promise<void> {
  const someFile = await open('/dev/null');
  // the methods of all open files are those of one prototype
  const prototype = Object.getPrototypeOf(someFile) as Pick<FileHandle, typeof method>;
  await someFile.close();
  const original = prototype[method];
  let left = passing;
  const failing = function (this: FileHandle, ...args: unknown[]): unknown {
    if (left-- > 0) return Reflect.apply(original, this, args);
    Reflect.set(prototype, method, original);
    return Promise.reject(Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' }));
  };
  Reflect.set(prototype, method, failing);
}

/** Makes the next write of any open file wait, as a slow disk does, until the returned function is called. */
export async function holdNextWrite(): Promise<() => void> {
  const someFile = await open('/dev/null');
  const prototype = Object.getPrototypeOf(someFile) as Pick<FileHandle, 'write'>;
  await someFile.close();
  const original = prototype.write;
  const released = Promise.withResolvers<void>();
  const held = async function (this: FileHandle, ...args: unknown[]): Promise<unknown> {
    Reflect.set(prototype, 'write', original);
    await released.promise;
    return Reflect.apply(original, this, args);
  };
  Reflect.set(prototype, 'write', held);
  return released.resolve;
}
