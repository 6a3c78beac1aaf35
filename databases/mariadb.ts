import type { Engine } from './engine.ts';
import { clientFile, clientOptions } from './option-file.ts';
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

const common = ofMysql('MARIADB', { program: 'mariadb', server: 'mariadbd' });

export const mariadb: Engine = {
  ...common,
  encryption: {
    ...common.encryption,
    // those of 10.11 use TLS only when they are told to; what listens on loopback needs no proof
    clientFiles: ({ username: user, password }) => ({
      [clientFile]: clientOptions({ host: '127.0.0.1', user, password, ssl: '1', 'ssl-verify-server-cert': '0' }),
    }),
  },
  type: 'mariadb',
  word: 'MariaDB',
  versions: ['11.8', '11.4', '10.11'],
  image: (version) => `mariadb:${version}`,
  dump: dumpOfMysql(dialect),
  imports: importOfMysql(dialect),
};
