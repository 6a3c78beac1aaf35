import { readFile } from 'node:fs/promises';
import { arch } from 'node:os';
import { join } from 'node:path';
import { ensurePackageImage, type PackageImage } from './package-image.ts';

/** Engines of which there is an image. */
export type DatabaseEngine = 'postgres' | 'mariadb' | 'mysql' | 'redis';

interface DatabaseImage extends PackageImage {
  /** Name of its entrypoint in `database-images/`. */
  entrypoint: string;
  /** Further files of that folder that it is made of. */
  programs?: readonly string[];
}

/** The account has the number that it has in the official images. */
const account = (name: string, home: string): string =>
  `RUN groupadd -r -g 999 ${name} && useradd -r -g 999 -u 999 -d ${home} -s /bin/bash ${name}`;
/** Anybody may write in these, as a container may run as another user than that of the image. */
const folders = (user: string, ...paths: string[]): string =>
  `RUN rm -rf ${paths.join(' ')} && install -d -o ${user} -g ${user} -m 1777 ${paths.join(' ')} && mkdir -p /docker-entrypoint-initdb.d`;

const mysqlSettings = (section: string, further: readonly string[]): string =>
  [
    `[${section}]`,
    'skip-name-resolve',
    'datadir=/var/lib/mysql',
    'socket=/run/mysqld/mysqld.sock',
    'pid-file=/run/mysqld/mysqld.pid',
    ...further,
    '[client]',
    'socket=/run/mysqld/mysqld.sock',
    '!includedir /etc/mysql/conf.d/',
    '',
  ].join('\n');
const mysqlLines = (command: string, ports: string): string[] => [
  'RUN rm -rf /etc/mysql && mkdir -p /etc/mysql/conf.d',
  'COPY my.cnf /etc/mysql/my.cnf',
  folders('mysql', '/var/lib/mysql', '/run/mysqld'),
  'VOLUME /var/lib/mysql',
  `EXPOSE ${ports}`,
  `CMD ["${command}"]`,
];

/** Just-in-time compilation, which the server does without where its files are not there: half of the image. */
const compiler = ['*/libLLVM*', '/llvm-*', '/postgresql/*/lib/llvmjit*', '/postgresql/*/lib/bitcode/*', '*/libz3*'];

/** Installs PostgreSQL without its compiler, and without a cluster. */
const withoutCluster = [
  "RUN mkdir -p /etc/postgresql-common && echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf",
  `RUN printf '%s\\n' ${compiler.map((it) => `'path-exclude=/usr/lib${it}'`).join(' ')} >/etc/dpkg/dpkg.cfg.d/compiler`,
];

/** Where what serves the protocol of MongoDB is in its image. */
const documentServer = '/usr/local/lib/document-server';

const images: Readonly<Record<DatabaseEngine | 'mongodb', DatabaseImage>> = {
  postgres: {
    suite: 'trixie',
    entrypoint: 'postgres.sh',
    before: [account('postgres', '/var/lib/postgresql'), ...withoutCluster],
    packages: ['postgresql-17', 'xz-utils'],
    lines: [
      'ENV PG_MAJOR=17 PGDATA=/var/lib/postgresql/data LANG=C.UTF-8 PATH=/usr/lib/postgresql/17/bin:$PATH',
      `RUN sed -ri "s/^#?(listen_addresses) = .*/\\1 = '*'/" /usr/share/postgresql/17/postgresql.conf.sample && grep -q "^listen_addresses = '\\*'" /usr/share/postgresql/17/postgresql.conf.sample`,
      folders('postgres', '/var/lib/postgresql/data', '/run/postgresql'),
      'VOLUME /var/lib/postgresql/data',
      'STOPSIGNAL SIGINT',
      'EXPOSE 5432',
      'CMD ["postgres"]',
    ],
  },
  mariadb: {
    suite: 'trixie',
    entrypoint: 'mysql.sh',
    before: [account('mysql', '/var/lib/mysql')],
    packages: ['mariadb-server-core', 'mariadb-client', 'mariadb-backup', 'xz-utils'],
    files: { 'my.cnf': mysqlSettings('mariadbd', ['bind-address=0.0.0.0']) },
    lines: mysqlLines('mariadbd', '3306'),
  },
  mysql: {
    suite: 'sid',
    entrypoint: 'mysql.sh',
    before: [account('mysql', '/var/lib/mysql')],
    packages: ['mysql-server-core', 'mysql-client-core', 'xz-utils'],
    files: {
      'my.cnf': mysqlSettings('mysqld', ['secure-file-priv=NULL', 'mysqlx-socket=/run/mysqld/mysqlx.sock']),
    },
    lines: mysqlLines('mysqld', '3306 33060'),
  },
  redis: {
    suite: 'trixie',
    entrypoint: 'redis.sh',
    before: [account('redis', '/data')],
    packages: ['redis-tools'],
    lines: [
      // The server is in the package of the tools, under the name of one of them.
      'RUN ln -sf redis-check-rdb /usr/bin/redis-server',
      folders('redis', '/data'),
      'VOLUME /data',
      'WORKDIR /data',
      'EXPOSE 6379',
      'CMD ["redis-server"]',
    ],
  },
  mongodb: {
    suite: 'sid',
    entrypoint: 'mongodb.sh',
    programs: ['server', 'wire', 'commands', 'login', 'engine', 'command-error'].map(
      (it) => `document-server/${it}.mjs`,
    ),
    before: [account('mongodb', '/data/db'), ...withoutCluster],
    packages: ['postgresql-18-documentdb', 'libstdc++6', 'libatomic1'],
    npm: { node: `node-linux-${arch()}@24.19.0` },
    modules: { 'document-server': ['mongosh@2.12.0', 'pg@8.23.1', 'bson@7.3.4'] },
    lines: [
      'ENV LANG=C.UTF-8 HOME=/data/db PATH=/usr/lib/postgresql/18/bin:$PATH',
      'COPY node/bin/node /usr/local/bin/',
      `COPY document-server ${documentServer}`,
      `RUN ln -s ${documentServer}/server.mjs /usr/local/bin/document-server && ln -s ${documentServer}/node_modules/.bin/mongosh /usr/local/bin/mongosh`,
      folders('mongodb', '/data/db', '/data/configdb', '/run/postgresql'),
      'VOLUME /data/db /data/configdb',
      'EXPOSE 27017',
      'CMD ["document-server"]',
    ],
  },
};

/**
 * Makes an image of the engine unless this machine's engine has it, in place of the official one of Docker Hub:
 * PostgreSQL 17, MariaDB 11.8 and Redis 8 of Debian trixie, MySQL 9 of sid. Answers with its reference.
 *
 * It keeps that of the contract of the official image which its users rely on: variables and their `_FILE` forms,
 * `/docker-entrypoint-initdb.d`, refusal of an empty volume without a password, volume, ports, stop signal, the user that
 * the server runs as, and the tools of the engine beside it, with `zstd`. Other than there, PostgreSQL sorts by bytes
 * (`C.UTF-8`) and has no just-in-time compilation. MariaDB and MySQL take names with quotes, backslashes and `` ` ``, which
 * the entrypoints of the official images do not quote. PostgreSQL refuses these and `$` in the name of its first user.
 *
 * That of `mongodb` is no MongoDB: a server of ours speaks its protocol in front of DocumentDB, a document database inside
 * PostgreSQL 18, of sid. Real in it are `mongosh`, the driver of MongoDB, SCRAM-SHA-256, and what is written and found.
 */
export async function ensureDatabaseImage(engine: DatabaseEngine | 'mongodb'): Promise<string> {
  const { entrypoint, programs = [], files, lines = [], ...image } = images[engine];
  const script = (name: string): Promise<string> =>
    readFile(join(import.meta.dirname, 'database-images', name), 'utf8');
  const further = await Promise.all(programs.map(async (name) => [name, await script(name)] as const));
  return ensurePackageImage(engine, {
    ...image,
    files: {
      ...files,
      ...Object.fromEntries(further),
      'docker-entrypoint.sh': await script(entrypoint),
      'common.sh': await script('common.sh'),
    },
    lines: [
      ...lines,
      'COPY docker-entrypoint.sh /usr/local/bin/',
      'COPY common.sh /usr/local/lib/database-entrypoint.sh',
      'ENTRYPOINT ["docker-entrypoint.sh"]',
    ],
  });
}
