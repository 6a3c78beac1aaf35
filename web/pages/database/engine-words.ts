/** What the served schema says of each engine in words, such as `postgres 17, 18; redis 8, 7`. */
type OfEngines = ReadonlyMap<string, readonly string[]>;

/** The versions of each engine, the usual one first, from the description of the field `version`; empty for other words. */
export function versionsIn(description: string): OfEngines {
  return new Map(
    partsAfter(description, /^By default the first: /).flatMap((part) => {
      const [, type = '', rest = ''] = /^([a-z]+) ([\w., ]+)$/.exec(part) ?? [];
      return type === '' ? [] : [[type, listOf(rest)]];
    }),
  );
}

/** The settings of each engine, from the description of the field `parameters`; empty for other words. */
export function parametersIn(description: string): OfEngines {
  return new Map(
    partsAfter(description, /^.*?(?=[a-z]+: )/).flatMap((part) => {
      const [, type = '', rest = ''] = /^([a-z]+): ([\w, -]+)$/.exec(part) ?? [];
      return type === '' ? [] : [[type, listOf(rest)]];
    }),
  );
}

function partsAfter(description: string, head: RegExp): string[] {
  return description
    .replace(/\.$/, '')
    .replace(head, '')
    .split(';')
    .map((part) => part.trim());
}

function listOf(text: string): string[] {
  return text.split(',').map((one) => one.trim());
}
