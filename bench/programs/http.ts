/** The smallest HTTP server. */
import { createServer } from 'node:http';

createServer((_request, response) => response.end('ready')).listen(Number(process.argv[2]), '127.0.0.1');
