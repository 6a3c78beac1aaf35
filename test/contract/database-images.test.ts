import { testDatabaseImage } from './database-image.ts';

testDatabaseImage('postgres');
testDatabaseImage('mariadb');
testDatabaseImage('redis');
