/** Where the clients of MySQL and MariaDB find the credentials. */
export const clientFile = '/etc/setpoint/client.cnf';

/**
 * An option file of the group `client`. Values are in quotes, with the escapes that the programs read.
 *
 * @see {@link https://dev.mysql.com/doc/refman/8.4/en/option-files.html}
 */
export function clientOptions(options: Readonly<Record<string, string>>): string {
  const lines = Object.entries(options).map(([name, value]) => `${name}="${escaped(value)}"`);
  return ['[client]', ...lines, ''].join('\n');
}

function escaped(value: string): string {
  return value
    .replaceAll('\\', String.raw`\\`)
    .replaceAll('"', String.raw`\"`)
    .replaceAll('\n', String.raw`\n`)
    .replaceAll('\r', String.raw`\r`)
    .replaceAll('\t', String.raw`\t`);
}
