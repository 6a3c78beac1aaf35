import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { realpath, stat } from 'node:fs/promises';
import { createServer } from 'node:net';

/**
 * Keeps other agents of this machine out of a data directory: two agents with one identity would replace each other's
 * session and undo each other's work. The lock is an abstract socket, which the kernel removes when the process ends. It
 * is of the folder and not of its path: agents in containers that share the network of the machine see each other's
 * sockets, and each has its own folder at the usual path.
 *
 * @throws Error if another process holds the directory
 */
export async function holdExclusively(folder: string): Promise<AsyncDisposable> {
  const path = await realpath(folder);
  const { dev, ino } = await stat(path, { bigint: true });
  const digest = createHash('sha256').update(`${dev}:${ino}`).digest('hex').slice(0, 32);
  const holder = createServer((socket) => socket.destroy());
  holder.listen(`\0setpoint-agent-${digest}`);
  try {
    await once(holder, 'listening');
  } catch (error) {
    throw new Error(`Another agent uses the data directory ${path}: stop that agent, or choose another --data`, {
      cause: error,
    });
  }
  holder.unref();
  return {
    async [Symbol.asyncDispose]() {
      holder.close();
      await once(holder, 'close');
    },
  };
}
