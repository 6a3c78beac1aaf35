import { once } from 'node:events';
import type { Methods } from './child.ts';

/** Resolves with the argument that the program was started with. */
export async function argument<T>(): Promise<T> {
  const [value] = await once(process, 'message');
  return value as T; // the process that starts a program knows its type
}

/** Reports to the parent process that this program is ready, and answers its calls until the parent disconnects. */
export async function serve(methods: Methods): Promise<void> {
  process.on('message', ({ id, name, parameters }: { id: number; name: string; parameters: never[] }) => {
    const method = methods[name];
    if (method === undefined) return void process.send?.({ id, error: `There is no method ${name}` });
    method(...parameters).then(
      (ok) => process.send?.({ id, ok: ok ?? null }),
      (error: unknown) => process.send?.({ id, error: error instanceof Error ? (error.stack ?? '') : String(error) }),
    );
  });
  process.send?.('ready');
  await new Promise<void>((resolve) => process.once('disconnect', resolve));
}
