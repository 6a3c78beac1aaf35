import type { DatabaseType, Engine } from './engine.ts';
import { mariadb } from './mariadb.ts';
import { mongodb } from './mongodb.ts';
import { mysql } from './mysql.ts';
import { postgres } from './postgres.ts';
import { redis } from './redis.ts';

/** Every engine by its type: a type without a row does not compile. */
export const engines: Readonly<Record<DatabaseType, Engine>> = { postgres, mysql, mariadb, redis, mongodb };
