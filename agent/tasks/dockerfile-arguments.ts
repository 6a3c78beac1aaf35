import { unreadable } from './dockerfile-lines.ts';

/** Longest value that is kept: what names an image is far shorter. */
const maxValueChars = 1024;
const maxArguments = 1000;

/** The arguments that builders have without a declaration, for an engine of a platform such as `linux/amd64`. */
export function platformArguments(platform: string | undefined): Record<string, string> {
  const [os, architecture] = platform?.split('/') ?? [];
  if (os === undefined || architecture === undefined) return {};
  // there are several of this one, and the engine does not say which it is
  const isVaried = architecture === 'arm';
  return Object.fromEntries(
    ['BUILD', 'TARGET'].flatMap((prefix) => [
      [`${prefix}OS`, os],
      [`${prefix}ARCH`, architecture],
      ...(isVaried
        ? []
        : [
            [`${prefix}PLATFORM`, `${os}/${architecture}`],
            [`${prefix}VARIANT`, ''],
          ]),
    ]),
  );
}

function isOfBuilders(name: string): boolean {
  return /^(?:BUILD|TARGET)(?:OS|ARCH|PLATFORM|VARIANT)$/.test(name);
}

/**
 * Adds the values of an ARG before the first FROM to `known`. Given values override those of the Dockerfile. A value
 * that is too long or cannot be read is left out: only a FROM that needs it fails.
 */
export function argumentsOf(rest: string, known: Map<string, string>, given: Readonly<Record<string, string>>): void {
  for (const word of rest.split(/[ \t]+/)) {
    const [, name = '', value] = /^([A-Za-z_][A-Za-z0-9_]*)(?:=(.*))?$/.exec(word) ?? [];
    if (name === '') continue;
    if (value === undefined && isOfBuilders(name) && known.has(name)) continue;
    const own = Object.hasOwn(given, name) ? given[name] : valueOf(value, known);
    if (own === undefined || own.length > maxValueChars) known.delete(name);
    else known.set(name, own);
    if (known.size > maxArguments) throw unreadable(`more than ${maxArguments} arguments before the first FROM`);
  }
}

/**
 * Replaces the variables in the name of a base image: `$NAME`, `${NAME}`, `${NAME:-other}`.
 * @throws RuntimeFailure `invalid_source` for other forms and for unknown variables
 */
export function expanded(text: string, known: ReadonlyMap<string, string>): string {
  const value = tryExpand(text, known);
  if (value !== undefined) return value;
  throw unreadable(
    `a base image that cannot be determined: ${text.slice(0, 200)}`,
    'Give each of its variables a value by ARG NAME=VALUE before the first FROM, or by build_args',
  );
}

function valueOf(text: string | undefined, known: ReadonlyMap<string, string>): string | undefined {
  if (text === undefined) return undefined;
  const [, single] = /^'([^']*)'$/.exec(text) ?? [];
  if (single !== undefined) return single;
  const [, double] = /^"([^"]*)"$/.exec(text) ?? [];
  return tryExpand(double ?? text, known);
}

/** As {@link expanded}; `undefined` where that refuses. */
export function tryExpand(text: string, known: ReadonlyMap<string, string>): string | undefined {
  let chars = 0; // of the values; infinite: one of them is not known
  const done = text.replaceAll(
    /\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^${}"'\\`]*))?\})/g,
    (_whole, plain: string | undefined, braced: string | undefined, other: string | undefined) => {
      const value = known.get(plain ?? braced ?? '');
      const chosen = other !== undefined && (value === undefined || value === '') ? other : value;
      chars += chosen === undefined || chosen.includes('$') ? Infinity : chosen.length;
      return chars > maxValueChars ? '' : (chosen ?? '');
    },
  );
  const isShort = chars <= maxValueChars && done.length <= maxValueChars;
  return isShort && !/[$"'\\`]/.test(done) ? done : undefined;
}
