import { exec, isPlain } from './recipe.ts';
import type { RepositoryFiles } from './repository-files.ts';

/** A word that is the port, alone or after plain characters, such as `0.0.0.0:$PORT`. */
const portWord = /^([A-Za-z0-9@%+=:,./_-]*(?:\$PORT|\$\{PORT\}|\$\{PORT:-\d{1,5}\}))$/;

/** The CMD of a command of plain words and ports; `undefined` for one that needs more of a shell. */
export function startLine(command: string): string | undefined {
  const words = command.trim().split(/[ \t]+/);
  if (command.length > 1000 || words[0] === undefined || !isPlain(words[0]) || words[0].includes('=')) return undefined;
  if (words.every(isPlain)) return exec('CMD', words);
  if (!words.every((word) => isPlain(word) || portWord.test(word))) return undefined;
  const shown = words.map((word) => word.replace(portWord, '"$1"'));
  return shellStart(shown.join(' '));
}

/** The CMD of a command for a shell, which the program replaces. `command` holds plain words and variables only. */
export function shellStart(command: string): string {
  return exec('CMD', ['sh', '-c', `exec ${command}`]);
}

export interface Started {
  line: string;
  reason: string;
  /** The command that the repository declares for it, if it does. */
  command?: string;
}

/** The command `web` of a Procfile. */
export async function webCommand(files: RepositoryFiles): Promise<string | undefined> {
  return /^web:[ \t]*(\S.*)$/m.exec((await files.text('Procfile')) ?? '')?.[1];
}

/** How a program starts by `web` of a Procfile; a text says why that cannot be. */
export async function procfileStart(files: RepositoryFiles): Promise<Started | string | undefined> {
  const command = await webCommand(files);
  if (command === undefined) return undefined;
  const line = startLine(command);
  if (line === undefined)
    return 'Procfile: its line web needs a shell, so that it is not used: set start_command, or use plain words and $PORT';
  return { line, reason: 'Procfile: it starts by the line web', command };
}
