import { describeDatabases } from '../harness/database-life.ts';

describeDatabases('postgres');
