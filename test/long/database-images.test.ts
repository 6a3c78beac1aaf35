import { testDatabaseImage } from '../contract/database-image.ts';

testDatabaseImage('mysql');
testDatabaseImage('mariadb');
