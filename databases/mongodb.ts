import { except, numberIn, plainName, rowsOf, urlOf } from './engine.ts';
import type { Engine } from './engine.ts';

const connectFile = '/etc/setpoint/connect.js';

/** Sets `db`, as the user. */
const connect = `
const { MONGO_INITDB_ROOT_USERNAME: user, MONGO_INITDB_ROOT_PASSWORD: password, MONGO_INITDB_DATABASE: name } =
  process.env;
const login = [user, password].map(encodeURIComponent).join(':');
db = connect('mongodb://' + login + '@127.0.0.1:27017/' + name + '?authSource=admin&serverSelectionTimeoutMS=5000');
`;

/** What connects is evaluated, too: mongosh reads what `--file` names after that, whatever their order. */
const asking = ['mongosh', '--quiet', '--nodb', '--eval', `load('${connectFile}')`, '--eval'];

export const mongodb: Engine = {
  type: 'mongodb',
  word: 'MongoDB',
  versions: ['8', '7'],
  image: (version) => `mongo:${version}`,
  port: 27017,
  dataPath: () => '/data/db',
  usual: { username: 'app', database: 'app' },
  username: plainName,
  database: except(plainName, ['admin', 'local', 'config']),
  configuration: ({ username, password, database }) => ({
    env: {
      MONGO_INITDB_ROOT_USERNAME: username,
      MONGO_INITDB_ROOT_PASSWORD: password,
      MONGO_INITDB_DATABASE: database,
    },
    files: { [connectFile]: connect },
  }),
  ready: [...asking, 'quit(db.runCommand({ ping: 1 }).ok === 1 ? 0 : 1)'],
  client: ['mongosh', '--quiet', '--nodb', '--shell', '--file', connectFile],
  usage: {
    command: [
      ...asking,
      'const { connections: { current, available }, uptime } = db.serverStatus(); print([current, current + available, uptime].join())',
    ],
    read(output) {
      const [connections, maxConnections, uptime] = rowsOf(output, ',').at(-1) ?? [];
      return {
        connections: numberIn(connections),
        maxConnections: numberIn(maxConnections),
        uptimeSeconds: Math.floor(numberIn(uptime)),
      };
    },
  },
  storage: {
    command: [
      ...asking,
      'for (const { name, sizeOnDisk } of db.adminCommand({ listDatabases: 1 }).databases) print(sizeOnDisk + "," + name)',
    ],
    read: (output) => rowsOf(output, ',').map(([bytes, ...name]) => ({ name: name.join(','), bytes: numberIn(bytes) })),
  },
  stopSignal: 'SIGTERM',
  graceSeconds: 300,
  url: (address, credentials) => `${urlOf('mongodb', address, credentials)}?authSource=admin`,
};
