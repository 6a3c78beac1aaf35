import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';

/** Identifies a machine and its current boot. Contains no secret and no address. */
export interface Machine {
  machineId: string;
  /** Changes with each boot. */
  bootId: string;
}

/**
 * Reads both ids from the kernel and `/etc/machine-id`. `fallback` is used for an id that the machine does not have.
 */
export async function readMachine(fallback: string): Promise<Machine> {
  const [machine, boot] = await Promise.all([read('/etc/machine-id'), read('/proc/sys/kernel/random/boot_id')]);
  return { machineId: hashed(machine ?? fallback), bootId: boot ?? hashed(fallback) };
}

/** The id of a machine is confidential (machine-id(5)), so that only its hash is sent. */
function hashed(id: string): string {
  return createHash('sha256').update(`setpoint\0${id}`).digest('hex').slice(0, 32);
}

async function read(path: string): Promise<string | undefined> {
  try {
    const text = (await readFile(path, 'utf8')).trim();
    return text === '' ? undefined : text;
  } catch {
    return undefined; // not Linux, or a container without the file
  }
}
