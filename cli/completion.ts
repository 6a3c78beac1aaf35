import type { Command } from 'commander';
import { kindWords } from './objects.ts';

/** A command and the words that can follow it. */
interface Place {
  /** Words of the command, from the program's name on. */
  path: readonly string[];
  words: readonly string[];
  /** Subcommands with their descriptions. */
  subcommands: readonly { name: string; text: string }[];
  options: readonly { name: string; text: string }[];
}

/**
 * The script by which a shell completes the command, built from the commands themselves. @throws Error for another
 * shell.
 */
export function completion(program: Command, shell: string): string {
  const places = placesOf(program, [program.name()]);
  switch (shell) {
    case 'bash':
      return bash(places);
    case 'zsh':
      return `autoload -U +X bashcompinit && bashcompinit\n${bash(places)}`;
    case 'fish':
      return fish(places);
    default:
      throw new Error(`Cannot complete for ${shell}: bash, zsh or fish`);
  }
}

function placesOf(command: Command, path: readonly string[]): Place[] {
  const subcommands = command.commands.map((one) => ({ name: one.name(), text: one.description() }));
  const options = command.options.flatMap(({ long, description }) =>
    typeof long === 'string' ? [{ name: long, text: description }] : [],
  );
  const takesKind = command.registeredArguments.some((one) => one.name() === 'kind');
  const choices = command.registeredArguments.flatMap((one) => one.argChoices ?? []);
  const words = [...(takesKind ? kindWords() : []), ...choices];
  const own = { path, words, subcommands, options };
  return [own, ...command.commands.flatMap((one) => placesOf(one, [...path, one.name()]))];
}

function bash(places: readonly Place[]): string {
  const steps = places.flatMap(({ path, subcommands }) =>
    subcommands.map(({ name }) => `      '${path.join(' ')} ${name}') path='${[...path, name].join(' ')}' ;;`),
  );
  const cases = places.map(({ path, words, subcommands, options }) => {
    const all = [...subcommands, ...options].map(({ name }) => name);
    return `    '${path.join(' ')}') words='${[...all, ...words].join(' ')}' ;;`;
  });
  return [
    '_setpoint() {',
    '  local word words path=setpoint current="${COMP_WORDS[COMP_CWORD]}"',
    '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
    '    case "$path $word" in',
    ...steps,
    '    esac',
    '  done',
    '  case "$path" in',
    ...cases,
    '  esac',
    '  COMPREPLY=($(compgen -W "$words" -- "$current"))',
    '}',
    'complete -F _setpoint setpoint',
  ].join('\n');
}

function fish(places: readonly Place[]): string {
  const lines = places.flatMap(({ path, words, subcommands, options }) => {
    const [, ...below] = path;
    const seen = below.map((name) => `__fish_seen_subcommand_from ${name}`);
    const before = subcommands.map(({ name }) => name).join(' ');
    const here = below.length === 0 ? '__fish_use_subcommand' : seen.join('; and ');
    const among = before === '' ? here : `${here}; and not __fish_seen_subcommand_from ${before}`;
    return [
      ...subcommands.map(({ name, text }) => `complete -c setpoint -f -n '${among}' -a ${name} -d ${quoted(text)}`),
      ...words.map((word) => `complete -c setpoint -f -n '${here}' -a ${word}`),
      ...options.map(({ name, text }) => `complete -c setpoint -n '${here}' -l ${name.slice(2)} -d ${quoted(text)}`),
    ];
  });
  return lines.join('\n');
}

function quoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
