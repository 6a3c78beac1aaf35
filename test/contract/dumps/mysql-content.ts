import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Content } from './database-dump.ts';

const read = (name: string): Promise<string> => readFile(join(import.meta.dirname, name), 'utf8');

const common = await read('mysql.sql');

/** Of all databases: the rows of each table as a checksum, and what there is beside tables. */
const tables = String.raw`
SELECT schema_name, default_character_set_name, default_collation_name FROM information_schema.schemata ORDER BY 1;
SELECT table_schema, table_name, table_type, engine, table_collation, auto_increment, table_comment FROM information_schema.tables WHERE table_schema NOT IN ('mysql', 'sys', 'performance_schema', 'information_schema') ORDER BY 1, 2;
SELECT table_schema, table_name, column_name, column_default, column_type, extra, generation_expression FROM information_schema.columns WHERE table_schema NOT IN ('mysql', 'sys', 'performance_schema', 'information_schema') ORDER BY table_schema, table_name, ordinal_position;
SELECT table_schema, table_name, view_definition, check_option, definer, security_type FROM information_schema.views WHERE table_schema <> 'sys' AND table_schema <> 'mysql' ORDER BY 1, 2;
SELECT trigger_schema, trigger_name, action_order, action_statement, definer, sql_mode, action_timing FROM information_schema.triggers WHERE trigger_schema <> 'sys' ORDER BY 1, 2;
SELECT routine_schema, routine_name, routine_type, routine_definition, definer, sql_mode, routine_comment, security_type FROM information_schema.routines WHERE routine_schema NOT IN ('sys', 'mysql') ORDER BY 1, 2, 3;
SELECT event_schema, event_name, event_definition, interval_value, interval_field, starts, status, definer FROM information_schema.events ORDER BY 1, 2;
SELECT constraint_schema, table_name, constraint_name, constraint_type FROM information_schema.table_constraints WHERE constraint_schema NOT IN ('mysql', 'sys', 'performance_schema') ORDER BY 1, 2, 3;
SELECT table_schema, table_name, index_name, seq_in_index, column_name, collation FROM information_schema.statistics WHERE table_schema NOT IN ('mysql', 'sys', 'performance_schema') ORDER BY 1, 2, 3, 4;
CHECKSUM TABLE app.every, app.large, app.many, app.unsafe, app.egg, app.hen, app.log, ${'`'}Weird "DB' ${'``'} % ☃${'`'}.t EXTENDED;
SELECT HEX(blobs), HEX(content), HEX(old), json, bits + 0, number, real8, at, exclaimed, following, ST_AsText(place) FROM app.every ORDER BY id;
SELECT * FROM app.of_user;
SELECT app.shout('a');
CALL app.${'`pro``cedure`'}(5, @y);
SELECT @y;
SHOW GRANTS FOR 'o''brien'@'10.%';
SHOW GRANTS FOR readers;
SELECT COUNT(*) FROM mysql.time_zone_name;
`;

function contentOf(client: string, fill: string, looks: string): Content {
  const asRoot = [client, '--defaults-file=/etc/setpoint/client.cnf', '--user=root', '--default-character-set=utf8mb4'];
  return {
    fill,
    fillAs: [...asRoot, '--max-allowed-packet=64M'],
    looks: [
      { command: [...asRoot, '--batch', '--skip-column-names'], input: looks },
      { command: ['test', '!', '-e', '/tmp/ran'], input: '' },
    ],
    spoil: (dump) => dump.replace(/CREATE TABLE `hen` \(/, 'CREATE TABLE `hen` (('),
    complaint: /^A part of the dump was refused: [^]*ERROR 1064 \(42000\) at line \d+/,
    login: ({ username, password, database }, host) => ({
      env: { MYSQL_PWD: password },
      command: [client, `--host=${host}`, `--user=${username}`, '--execute=SELECT 1', database],
    }),
  };
}

export const mysqlContent = contentOf(
  'mysql',
  common,
  `${tables}\nSHOW GRANTS FOR app;\nSHOW CREATE USER 'o''brien'@'10.%';\n`,
);

export const mariadbContent = contentOf(
  'mariadb',
  common + (await read('mariadb.sql')),
  `${tables}
SELECT *, row_start, row_end FROM app.versioned FOR SYSTEM_TIME ALL ORDER BY row_start;
SELECT *, it FROM app.numbered;
SELECT next_not_cached_value, increment FROM app.counter;
SELECT * FROM mysql.servers;
SELECT user, host, JSON_REMOVE(priv, '$.authentication_string', '$.password_last_changed') FROM mysql.global_priv ORDER BY 1, 2;
SHOW CREATE USER 'o''brien'@'10.%';
`,
);
