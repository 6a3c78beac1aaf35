import { once } from 'node:events';
import type { Methods } from './child.ts';

/** What the program was started with. */
export async function argument<T>(): Promise<T> {
  const [value] = await once(process, 'message');
  return value as T; // whoever starts a program knows what it takes
}

/** Tells whoever started this program that it serves, and answers its calls until it goes away. */
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
