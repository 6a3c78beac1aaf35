import { testDump } from '../contract/dumps/database-dump.ts';
import { mysqlContent } from '../contract/dumps/mysql-content.ts';

testDump('mysql', mysqlContent);
