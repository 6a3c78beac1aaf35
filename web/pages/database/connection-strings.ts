import { shellQuoted } from '../../parts/request-text.ts';

/** Where a database is reached, and as whom. */
interface Access {
  readonly host: string;
  readonly port: number;
  readonly username: string;
  readonly password: string;
  readonly database: string;
  /** The address as clients of the engine take it. */
  readonly url: string;
}

/** How a program connects: the name of its language or client, and the text. */
interface ConnectionString {
  readonly language: string;
  readonly text: string;
}

/** Texts of passwords are printable ASCII: as JSON they are literals of each of these languages. */
const literal = (text: string): string => JSON.stringify(text);

/** How programs connect to a database of an engine, the client of the engine first. */
export function connectionStrings(type: string, at: Access): readonly ConnectionString[] {
  const make = byEngine[type];
  return [...(make?.(at) ?? []), { language: 'URL', text: at.url }];
}

const byEngine: Readonly<Record<string, (at: Access) => readonly ConnectionString[]>> = {
  postgres: (at) => [
    { language: 'psql', text: `psql ${shellQuoted(at.url)}` },
    {
      language: 'Node',
      text: `import pg from 'pg';\nconst pool = new pg.Pool({ connectionString: ${literal(at.url)} });`,
    },
    { language: 'Python', text: `import psycopg\nconnection = psycopg.connect(${literal(at.url)})` },
    { language: 'Go', text: `pool, err := pgxpool.New(ctx, ${literal(at.url)})` },
    jdbc('postgresql', at),
  ],
  mysql: (at) => ofMysql('mysql', at),
  mariadb: (at) => ofMysql('mariadb', at),
  redis: ({ url }) => [
    { language: 'redis-cli', text: `redis-cli -u ${shellQuoted(url)}` },
    {
      language: 'Node',
      text: `import { createClient } from 'redis';\nconst client = createClient({ url: ${literal(url)} });`,
    },
    { language: 'Python', text: `import redis\nclient = redis.Redis.from_url(${literal(url)})` },
    { language: 'Go', text: `options, err := redis.ParseURL(${literal(url)})\nclient := redis.NewClient(options)` },
  ],
  mongodb: ({ url }) => [
    { language: 'mongosh', text: `mongosh ${shellQuoted(url)}` },
    {
      language: 'Node',
      text: `import { MongoClient } from 'mongodb';\nconst client = new MongoClient(${literal(url)});`,
    },
    { language: 'Python', text: `import pymongo\nclient = pymongo.MongoClient(${literal(url)})` },
    { language: 'Go', text: `client, err := mongo.Connect(options.Client().ApplyURI(${literal(url)}))` },
  ],
};

function ofMysql(client: 'mysql' | 'mariadb', at: Access): readonly ConnectionString[] {
  const { host, port, username, password, database, url } = at;
  return [
    {
      language: client,
      text: `MYSQL_PWD=${shellQuoted(password)} ${client} --host=${shellQuoted(host)} --port=${port} --user=${shellQuoted(username)} ${shellQuoted(database)}`,
    },
    { language: 'Node', text: `import mysql from 'mysql2/promise';\nconst pool = mysql.createPool(${literal(url)});` },
    {
      language: 'Python',
      text: `import pymysql\nconnection = pymysql.connect(host=${literal(host)}, port=${port}, user=${literal(username)},\n    password=${literal(password)}, database=${literal(database)})`,
    },
    {
      language: 'Go',
      text: `config := mysql.NewConfig()\nconfig.Net, config.Addr = "tcp", ${literal(`${host}:${port}`)}\nconfig.User, config.Passwd = ${literal(username)}, ${literal(password)}\nconfig.DBName = ${literal(database)}\ndb, err := sql.Open("mysql", config.FormatDSN())`,
    },
    jdbc(client, at),
  ];
}

function jdbc(scheme: string, { host, port, username, password, database }: Access): ConnectionString {
  const query = `user=${encodeURIComponent(username)}&password=${encodeURIComponent(password)}`;
  return { language: 'JDBC', text: `jdbc:${scheme}://${host}:${port}/${encodeURIComponent(database)}?${query}` };
}
