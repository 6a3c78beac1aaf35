import { testDatabaseImage } from './database-image.ts';

testDatabaseImage('postgres');
testDatabaseImage('redis');
