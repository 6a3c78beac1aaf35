import { describe, expect, it } from 'vitest';
import { connectionStrings } from '../../../web/pages/database/connection-strings.ts';

const at = {
  host: 'db-1',
  port: 5432,
  username: 'app',
  password: `a'b"c\\d$e &?`,
  database: 'shop',
  url: `postgresql://app:a%27b%22c%5Cd%24e%20%26%3F@db-1:5432/shop`,
};
const textOf = (type: string, language: string): string =>
  connectionStrings(type, at).find((one) => one.language === language)?.text ?? '';
/** What a literal within a text stands for. */
const literals = (text: string): unknown[] => (text.match(/"(?:[^"\\]|\\.)*"/g) ?? []).map((one) => JSON.parse(one));

describe('connection strings', () => {
  it('begin with the client of the engine and end with the address', () => {
    const languages = (type: string): string[] => connectionStrings(type, at).map(({ language }) => language);
    expect(languages('postgres')).toEqual(['psql', 'Node', 'Python', 'Go', 'JDBC', 'URL']);
    expect(languages('mariadb')).toEqual(['mariadb', 'Node', 'Python', 'Go', 'JDBC', 'URL']);
    expect(languages('redis')).toEqual(['redis-cli', 'Node', 'Python', 'Go', 'URL']);
    expect(languages('mongodb')).toEqual(['mongosh', 'Node', 'Python', 'Go', 'URL']);
    expect(languages('of-a-newer-server')).toEqual(['URL']);
  });

  it('hold a password with quotes and backslashes byte for byte', () => {
    expect(literals(textOf('mysql', 'Python'))).toContain(at.password);
    expect(literals(textOf('mysql', 'Go'))).toContain(at.password);
    expect(textOf('mysql', 'mysql')).toContain(String.raw`MYSQL_PWD='a'\''b"c\d$e &?'`);
  });

  it('encode what a query of an address would end at', () => {
    const query = new URLSearchParams(textOf('postgres', 'JDBC').split('?')[1]);
    expect([query.get('user'), query.get('password')]).toEqual(['app', at.password]);
  });
});
