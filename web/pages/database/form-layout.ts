import type { FieldWords, FormLayout, Values } from '../../parts/schema-form.tsx';

const words: Readonly<Record<string, FieldWords>> = {
  name: { label: 'Name', help: 'Applications reach it by this name, too.', placeholder: 'orders' },
  type: {
    label: 'Engine',
    options: {
      postgres: 'PostgreSQL',
      mysql: 'MySQL',
      mariadb: 'MariaDB',
      redis: 'Redis',
      mongodb: 'MongoDB',
    },
  },
  version: { help: 'It stays as it is.' },
  database_name: { label: 'Name of the database in it', placeholder: 'app' },
  database_user: { label: 'User', placeholder: 'app' },
  password: { help: 'Empty: one is generated.' },
  memory_limit: { label: 'Memory', control: 'memory', help: 'Empty: half of the memory of its server.' },
  cpu_limit: { label: 'Processors', control: 'cpu', help: 'Empty: four fifths of those of its server.' },
  exposed_port: {
    label: 'Port of its server',
    help: 'Empty: only its environment reaches it. Connections without TLS can be read on their way.',
  },
  connection_pooling: {
    label: 'Pool connections',
    help: 'PgBouncer beside it: many clients share few connections, each for a transaction. Its engine goes on as it is.',
  },
  require_tls: {
    label: 'Require TLS',
    help: 'No connection without TLS, which clients may use anyway. Its engine starts anew for a change.',
  },
  parameters: { help: 'Settings of its engine. It starts anew for a change; all connections end.' },
  display_name: { label: 'Title' },
  backup_mode: {
    label: 'Backups',
    options: { none: 'By schedules alone', scheduled: 'By a schedule', pitr: 'To any instant (PostgreSQL)' },
  },
  backup_destination_id: { label: 'Destination', help: 'Empty: the only one that there is.' },
  backup_schedule: { label: 'When base backups are made', help: 'Five fields, in UTC. Empty: once a day.' },
  backup_retention_count: { label: 'Base backups that are kept', placeholder: '7' },
};

const canPool = ({ type }: Values): boolean => type === 'postgres';

const canEncrypt = ({ type }: Values): boolean => type === 'postgres' || type === 'mysql' || type === 'mariadb';

const archives = ({ backup_mode: mode, type }: Values): boolean =>
  mode === 'pitr' && (type === undefined || type === 'postgres');

/** The order and the words of a new database; which fields there are, the served schema says. */
export const newDatabaseLayout: FormLayout = {
  groups: [
    { title: 'Database', fields: ['name', 'type', 'version'] },
    { title: 'Place', fields: ['environment_id', 'server_id'] },
    {
      title: 'Access',
      fields: ['database_name', 'database_user', 'password', 'exposed_port', 'connection_pooling', 'require_tls'],
    },
    { title: 'Limits', fields: ['memory_limit', 'cpu_limit', 'parameters'] },
  ],
  words,
  visibleWhen: { connection_pooling: canPool, require_tls: canEncrypt },
  // backups are set up on the page of the database
  hidden: [
    'project_id',
    'backup_mode',
    'pitr_enabled',
    'backup_destination_id',
    'backup_schedule',
    'backup_retention_count',
  ],
};

/** The order and the words of the settings of a database. */
export const databaseSettingsLayout: FormLayout = {
  groups: [
    { title: 'Database', fields: ['name', 'display_name'] },
    { title: 'Limits', fields: ['memory_limit', 'cpu_limit', 'parameters'] },
    { title: 'Reached from outside', fields: ['exposed_port'] },
    { title: 'Connections', fields: ['connection_pooling', 'require_tls'], visibleWhen: canEncrypt },
    {
      title: 'Archive',
      fields: ['backup_mode', 'backup_destination_id', 'backup_schedule', 'backup_retention_count'],
      visibleWhen: ({ type }) => type === 'postgres',
    },
  ],
  words,
  // the other word for backup_mode
  hidden: ['pitr_enabled'],
  visibleWhen: {
    connection_pooling: canPool,
    backup_destination_id: archives,
    backup_schedule: archives,
    backup_retention_count: archives,
  },
};
