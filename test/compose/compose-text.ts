import { parseCompose } from '../../compose/parse.ts';
import type { Composition } from '../../compose/parse.ts';

/** Reads a compose file as one in a repository, or as one that was sent. */
export function compose(text: string, env: Record<string, string> = {}, inRepository = true): Composition {
  return parseCompose({ text, variables: new Map(Object.entries(env)), inRepository });
}

/** A file with one service `web` that has these lines besides its image. */
export function service(...lines: string[]): string {
  return ['services:', '  web:', '    image: nginx:1.27', ...lines.map((line) => `    ${line}`), ''].join('\n');
}
