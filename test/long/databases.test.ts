import { describeDatabases } from '../harness/database-life.ts';

describeDatabases('mariadb', 'mysql', 'redis');
