const engineNames: Readonly<Record<string, string>> = {
  postgres: 'PostgreSQL',
  mysql: 'MySQL',
  mariadb: 'MariaDB',
  redis: 'Redis',
  mongodb: 'MongoDB',
};

/** The name that an engine goes by. */
export function engineName(type: string): string {
  return engineNames[type] ?? type;
}
