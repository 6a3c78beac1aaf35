import { testDump } from './dumps/database-dump.ts';
import { mariadbContent } from './dumps/mysql-content.ts';
import { postgresContent } from './dumps/postgres-content.ts';
import { redisContent } from './dumps/redis-content.ts';

testDump('postgres', postgresContent);
testDump('mariadb', mariadbContent);
testDump('redis', redisContent);
