import type { Engine } from './engine.ts';
import { dumpOfMysql, importOfMysql, ofMysql } from './mysql.ts';
import type { Dialect } from './mysql.ts';

const dialect: Dialect = {
  client: 'mariadb',
  dump: 'mariadb-dump',
  // refuses a table whose history goes by transactions, in place of leaving its history out
  further: ['--dump-history'],
  keep: [
    'CREATE TEMPORARY TABLE mysql.setpoint_kept AS SELECT user, host, ' +
      "JSON_VALUE(priv, '$.plugin') AS plugin, JSON_VALUE(priv, '$.authentication_string') AS password " +
      "FROM mysql.global_priv WHERE user <> 'mariadb.sys'",
  ],
  bringBack: [
    'UPDATE mysql.global_priv AS now JOIN mysql.setpoint_kept AS kept ON now.user = kept.user AND now.host = kept.host ' +
      "SET now.priv = JSON_SET(now.priv, '$.plugin', kept.plugin, '$.authentication_string', kept.password)",
  ],
};

export const mariadb: Engine = {
  ...ofMysql('MARIADB', { program: 'mariadb', server: 'mariadbd' }),
  type: 'mariadb',
  word: 'MariaDB',
  versions: ['11.8', '11.4', '10.11'],
  image: (version) => `mariadb:${version}`,
  dump: dumpOfMysql(dialect),
  imports: importOfMysql(dialect),
};
