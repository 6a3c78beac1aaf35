/** A request that a form sends. Values of fields in `secrets` are shown as the name of a shell variable. */
export interface ShownRequest {
  readonly method: string;
  /** Path with the tenant, without host. */
  readonly path: string;
  readonly body?: unknown;
  readonly secrets?: readonly string[];
}

/** One argument of a POSIX shell. */
export function shellQuoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

const place = (name: string): string => name.replaceAll(/[^A-Za-z0-9]+/g, '_').toUpperCase();

/** A body with the name of a variable in the place of each secret. */
export function withoutSecrets(body: unknown, secrets: readonly string[]): unknown {
  if (Array.isArray(body)) return body.map((one: unknown) => withoutSecrets(one, secrets));
  if (typeof body !== 'object' || body === null) return body;
  return Object.fromEntries(
    Object.entries(body).map(([name, value]) => {
      const isSecret = secrets.includes(name) && value !== null && value !== undefined && value !== '';
      return [name, isSecret ? `$${place(name)}` : withoutSecrets(value, secrets)];
    }),
  );
}

/** The request as a command of curl. The token comes from the environment, never from this text. */
export function asCurl(origin: string, { method, path, body, secrets = [] }: ShownRequest): string {
  const lines = [`curl --fail-with-body -X ${method} ${shellQuoted(`${origin}${path}`)}`];
  lines.push(`-H "Authorization: Bearer $SETPOINT_TOKEN"`);
  if (body !== undefined) {
    lines.push(`-H 'Content-Type: application/json'`);
    const text = JSON.stringify(withoutSecrets(body, secrets), undefined, 2);
    const names = secrets.filter((name) => text.includes(`"$${place(name)}"`));
    // a quoted text is closed around each variable, so that the shell puts its value there
    let quoted = shellQuoted(text);
    for (const name of names) quoted = quoted.replaceAll(`"$${place(name)}"`, `"'"$${place(name)}"'"`);
    lines.push(`-d ${quoted}`);
  }
  return lines.join(' \\\n  ');
}

const plainScalar = /^[A-Za-z_/][\w ./@+-]*$/;
const wordsOfYaml = new Set(['true', 'false', 'null', 'yes', 'no', 'on', 'off', 'y', 'n', '~']);

/** A value as YAML. */
function asYaml(value: unknown, indent = ''): string {
  if (Array.isArray(value)) {
    if (value.length === 0) return ' []\n';
    return `\n${value.map((one: unknown) => `${indent}-${nested(one, `${indent}  `)}`).join('')}`;
  }
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).filter(([, one]) => one !== undefined);
    if (entries.length === 0) return ' {}\n';
    return `\n${entries.map(([name, one]) => `${indent}${scalar(name)}:${asYaml(one, `${indent}  `)}`).join('')}`;
  }
  return ` ${scalar(value)}\n`;
}

/** An element of a list: the first field of an object stands on the line of its dash. */
function nested(value: unknown, indent: string): string {
  const text = asYaml(value, indent);
  return text.startsWith('\n') ? ` ${text.slice(1 + indent.length)}` : text;
}

function scalar(value: unknown): string {
  if (typeof value !== 'string') return JSON.stringify(value);
  const isPlain = plainScalar.test(value) && !wordsOfYaml.has(value.toLowerCase()) && !value.endsWith(' ');
  return isPlain ? value : JSON.stringify(value);
}

/** A value as a document of YAML. */
export function yamlDocument(value: unknown): string {
  return asYaml(value).replace(/^[\n ]/, '');
}
