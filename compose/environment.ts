import type { Variables } from './interpolate.ts';
import type { Node } from './node.ts';
import { insideRepository } from './paths.ts';
import { want } from './mounts.ts';
import type { Declared } from './mounts.ts';
import { faultOfName, faultOfValue, variableLimits } from '../store/kinds/variables.ts';
import { hasReferences } from '../store/references.ts';
import type { PlainComposedService } from '../store/kinds/composed-service.ts';
import { readFlag, readKeys, readMatching, readOneOrMore, readPairs, readText } from './read-value.ts';
import type { Found, Keys } from './read-value.ts';

interface Known extends Found {
  variables: Variables;
}

/** The value of a variable that a file names without one: that of the application. */
function passed(name: string, at: Node, { findings, variables }: Known): string | undefined {
  const value = variables.get(name);
  if (value === undefined)
    findings.warn(at, `passes ${name} on, which the application has no variable for: it is left out`);
  return value;
}

/** Why a variable that takes something of another object cannot stand where it does. */
export function faultOfReference(name: string): string {
  return `has the variable ${name}, which takes something of another object: only environment may have it. Let the program read it there`;
}

/** Reads `environment` or `args`, a map or a list of `NAME=VALUE`. */
export function readVariables(node: Node, found: Known, words: 'variables' | 'arguments'): Record<string, string> {
  const env: Record<string, string> = {};
  for (const { name, value, at } of readPairs(node, found)) {
    const text = value ?? passed(name, at, found);
    const refers = words === 'arguments' && value === undefined && hasReferences(text ?? '');
    const faultOfText = refers ? faultOfReference(name) : text === undefined ? undefined : faultOfValue(text);
    const fault = faultOfName(name) ?? faultOfText;
    if (fault !== undefined) found.findings.error(at, fault);
    else if (text !== undefined) env[name] = text;
  }
  if (Object.keys(env).length > variableLimits.count)
    found.findings.error(node, `must have at most ${variableLimits.count} ${words}`);
  return env;
}

/** Reads `env_file`: files of the repository. */
export function readEnvFiles(node: Node, found: Declared): PlainComposedService['env_files'] {
  return readOneOrMore(node, found).flatMap((it) => {
    const read = { path: '', required: true, raw: false };
    const keys: Keys<Found> = {
      path: (at) => (read.path = readText(at, found) ?? ''),
      required: (at) => (read.required = readFlag(at, found) ?? true),
      format: (at) => (read.raw = readMatching(at, /^raw$/, 'must be raw', found) !== undefined),
    };
    if (it.type === 'map') readKeys(it, keys, found);
    else read.path = readText(it, found) ?? '';
    const inside = insideRepository(read.path, found.folder);
    if (inside === undefined || inside === '.') found.findings.error(it, 'must be a file inside the repository');
    else if (!found.inRepository)
      found.findings.error(it, 'is refused: this compose file is in no repository. Write the variables as environment');
    else {
      want(inside, it, found);
      return [{ path: inside, required: read.required, ...(read.raw && { raw: true as const }) }];
    }
    return [];
  });
}
