import { randomBytes } from 'node:crypto';
import type { Readable } from 'node:stream';

/** What of sudo's standard error tells how far it is. Neither text is in the command itself, which a shell may trace. */
interface Marks {
  /** sudo asks for the password. */
  prompt: string;
  /** The shell of root reads its input from now on. */
  begun: string;
}

/**
 * The command that runs `sh -s` as root where sudo asks for the password. `-k` makes it ask in any case; its prompt and
 * the first word of the shell are random, so that no other text is taken for them.
 */
export function sudoByPassword(): { command: string; marks: Marks } {
  const [asks, begins] = [randomBytes(12).toString('hex'), randomBytes(12).toString('hex')];
  return {
    // sudo prints %% as %, and the shell "" as nothing
    command: `sudo -k -S -p 'asks%%${asks}' -- sh -c 'echo begun""${begins} >&2; exec sh -s'`,
    marks: { prompt: `asks%${asks}`, begun: `begun${begins}` },
  };
}

/**
 * Has the first prompt of sudo answered, and nothing else: a shell that read the password would run it. Resolves with
 * whether the shell of root has begun; `false` if sudo asks again. It does not resolve if sudo ends before.
 */
export function authenticate(stderr: Readable, { prompt, begun }: Marks, answer: () => void): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  let heard = '';
  let isAnswered = false;
  const end = (hasBegun: boolean): void => {
    stderr.off('data', listen);
    resolve(hasBegun);
  };
  const listen = (chunk: Buffer): void => {
    heard += chunk.toString('latin1');
    if (heard.includes(begun)) return end(true);
    for (let at = heard.indexOf(prompt); at >= 0; at = heard.indexOf(prompt)) {
      if (isAnswered) return end(false);
      isAnswered = true;
      heard = heard.slice(at + prompt.length);
      answer();
    }
    // a mark may come in parts
    heard = heard.slice(-(prompt.length + begun.length));
  };
  stderr.on('data', listen);
  return promise;
}

/** What was said on standard error: by the script if its shell began, else by sudo after its first question. */
export function afterSudo(stderr: string, { prompt, begun }: Marks): string {
  const at = stderr.indexOf(begun);
  if (at >= 0) return stderr.slice(at + begun.length).replace(/^\r?\n/, '');
  const asked = stderr.indexOf(prompt);
  return stderr.slice(asked < 0 ? 0 : asked + prompt.length).replaceAll(prompt, '');
}
