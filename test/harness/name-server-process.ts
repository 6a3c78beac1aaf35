import { openNameSocket } from '../../agent/ingress/name-socket.ts';

/**
 * Answers the questions of a proxy, all with the same instances, as a process of its own: it can be frozen.
 * Usage: fork(file, [path of its socket]); it sends a message once it listens, and each that it gets are the instances
 */
let upstreams: readonly { address: string; port: number }[] = [];
process.on('message', (told: readonly { address: string; port: number }[]) => (upstreams = told));
process.once('disconnect', () => process.exit());
const [path = ''] = process.argv.slice(2);
await openNameSocket(path, () => upstreams);
process.send?.('listening');
