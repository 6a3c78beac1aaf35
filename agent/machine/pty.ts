import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { ReadStream } from 'node:tty';
import { wait } from '../../time/clock.ts';
import type { Clock } from '../../time/clock.ts';
import type { TerminalSize } from '../runtime/exec.ts';

/** Pauses while the program takes no input: the kernel does not report to Node when it does. */
const pauses = { firstMs: 1, mostMs: 100 };
const nameBytes = 64;

/** Requests of `ioctl` on Linux, the same on x86 and Arm, and a flag of a terminal. */
const requests = { getModes: 0x5401, setModes: 0x5402, setSize: 0x5414 } as const;
const modesBytes = 64;
const inputIsUtf8 = 0x4000;

/** Functions of the C library. `ioctl` has a variable argument, which is passed as any other on x86 and Arm. */
const signatures = {
  unlockpt: { return: 'int32', arguments: ['int32'] },
  ptsname_r: { return: 'int32', arguments: ['int32', 'buffer', 'uint64'] },
  ioctl: { return: 'int32', arguments: ['int32', 'uint64', 'buffer'] },
} as const;

/**
 * A pseudo-terminal. The agent has the end of the screen and the keyboard; programs have the other one, `slave`. When
 * the agent ends, the kernel closes the first end, which is the hang-up for the programs.
 *
 * Node has no pseudo-terminals. Three functions of the C library, which are in the process anyway, make one, see
 * docs/decisions/031.
 */
export class Pty {
  /** Its file, such as `/dev/pts/3`. */
  readonly name: string;
  /** A descriptor of the end of the programs. */
  readonly slave: number;
  readonly #fd: number;
  readonly #libc: Libc;
  readonly #screen: ReadStream;
  readonly #clock: Clock;
  readonly #closed = new AbortController();
  #hasSlave = true;
  #isAwaited = false;
  #delivered = 0;

  private constructor(
    { master, name, slave }: { master: number; name: string; slave: number },
    libc: Libc,
    clock: Clock,
  ) {
    this.#fd = master;
    this.name = name;
    this.slave = slave;
    this.#libc = libc;
    this.#clock = clock;
    this.#screen = new ReadStream(master);
    this.#screen.on('error', () => undefined); // the reader of the output gets it
  }

  /** @throws Error if the machine has no pseudo-terminals or too many are open */
  static async open(size: TerminalSize, clock: Clock): Promise<Pty> {
    const libc = await openLibc();
    const flags = constants.O_RDWR | constants.O_NOCTTY;
    const master = openSync('/dev/ptmx', flags | constants.O_NONBLOCK);
    try {
      requireZero('unlockpt', libc.unlockpt(master));
      const name = Buffer.alloc(nameBytes);
      requireZero('ptsname_r', libc.ptsname_r(master, name, BigInt(nameBytes)));
      const path = name.subarray(0, name.indexOf(0)).toString();
      const modes = Buffer.alloc(modesBytes);
      requireZero('ioctl', libc.ioctl(master, BigInt(requests.getModes), modes));
      setUtf8(modes);
      requireZero('ioctl', libc.ioctl(master, BigInt(requests.setModes), modes));
      requireZero('ioctl', libc.ioctl(master, BigInt(requests.setSize), bytesOf(size)));
      return new Pty({ master, name: path, slave: openSync(path, flags) }, libc, clock);
    } catch (error) {
      closeSync(master);
      throw error;
    }
  }

  get isClosed(): boolean {
    return this.#screen.destroyed;
  }

  /** Bytes of output that its reader took; `undefined` while there is output that it has not taken. */
  get deliveredToWaiting(): number | undefined {
    return this.#isAwaited ? this.#delivered : undefined;
  }

  /** The programs in the foreground get SIGWINCH if the size is a new one. */
  setSize(size: TerminalSize): void {
    if (!this.isClosed) this.#libc.ioctl(this.#fd, BigInt(requests.setSize), bytesOf(size));
  }

  /** Resolves when the terminal has taken the bytes; those for a closed one are dropped. */
  async write(data: Uint8Array): Promise<void> {
    let pauseMs = pauses.firstMs;
    for (let rest = data; rest.length > 0 && !this.isClosed;) {
      const taken = this.#offer(rest);
      rest = rest.subarray(taken);
      if (taken > 0) pauseMs = pauses.firstMs;
      else await wait(this.#clock, pauseMs, this.#closed.signal).catch(() => undefined);
      if (taken === 0) pauseMs = Math.min(2 * pauseMs, pauses.mostMs);
    }
  }

  /**
   * What the programs write, until none has the terminal open or it is hung up. They wait while it is not read. For one
   * reader.
   */
  async *output(): AsyncGenerator<Uint8Array, void, undefined> {
    const chunks: AsyncIterator<Buffer> = this.#screen[Symbol.asyncIterator]();
    try {
      for (;;) {
        this.#isAwaited = true;
        const { done, value } = await chunks.next();
        this.#isAwaited = false;
        if (done === true) return;
        yield value;
        this.#delivered += value.length;
      }
    } catch (error) {
      // So the kernel reports that no program has the terminal open.
      if (!this.#closed.signal.aborted && !isCode(error, 'EIO')) throw error;
    } finally {
      this.hangUp();
    }
  }

  /** The agent needs its own descriptor of the programs' end no more: the output ends with the last program's. */
  closeSlave(): void {
    if (!this.#hasSlave) return;
    this.#hasSlave = false;
    closeSync(this.slave);
  }

  /** Closes the terminal, as when a line is cut: the kernel sends SIGHUP to the program that leads its session. */
  hangUp(): void {
    this.closeSlave();
    this.#closed.abort(new Error('The terminal is closed'));
    this.#screen.destroy();
  }

  /** Returns how many bytes the terminal took. */
  #offer(data: Uint8Array): number {
    try {
      return writeSync(this.#fd, data);
    } catch (error) {
      if (isCode(error, 'EAGAIN')) return 0;
      if (isCode(error, 'EIO')) return data.length; // no program has it open
      throw error;
    }
  }
}

type Libc = Awaited<ReturnType<typeof openLibc>>;

/** The C library of this process. @throws Error if this Node was built without `node:ffi` */
async function openLibc() {
  const { dlopen } = await import('node:ffi');
  return dlopen(null, signatures).functions;
}

function requireZero(name: string, result: number): void {
  if (result !== 0) throw new Error(`Cannot make a terminal: ${name} answered ${result}`);
}

/** As the kernel has it: rows, columns, and two numbers of pixels, which are not known. */
function bytesOf({ cols, rows }: TerminalSize): Buffer {
  return Buffer.from(Uint16Array.of(rows, cols, 0, 0).buffer);
}

/** The kernel then erases whole characters where it edits the line. The flags of the input come first. */
function setUtf8(modes: Buffer): void {
  const flags = new DataView(modes.buffer, modes.byteOffset, 4);
  const isLittleEndian = true;
  flags.setUint32(0, flags.getUint32(0, isLittleEndian) | inputIsUtf8, isLittleEndian);
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}
