import { inMiB, type Check } from './check.ts';

/** Share of the bound of all logs from which the oldest lines go before their time. */
const nearlyFull = 0.95;

export const logStorage: Check = {
  name: 'log_storage',
  async look({ logs }) {
    const { bytes, maxBytes } = logs.size;
    const message = `Logs take ${inMiB(bytes)} of at most ${inMiB(maxBytes)}`;
    try {
      await logs.probe();
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? ` (${String(error.code)})` : '';
      return {
        status: 'fail',
        message: `Lines of logs cannot be stored${code}: they are lost`,
        remedy:
          "Look at the disk of the agent's data directory: whether it is mounted for reading only, and whose it is",
      };
    }
    if (bytes < maxBytes * nearlyFull) return { status: 'pass', message };
    return {
      status: 'warn',
      message: `${message}: the oldest lines of the workload that writes most are removed before their time`,
      remedy: 'Let it write less, or set a shorter log_retention_days. Heal it, which removes what is over the bounds',
      isHealable: true,
    };
  },
  async heal({ logs }) {
    const before = logs.size.bytes;
    await logs.prune();
    const freed = Math.max(0, before - logs.size.bytes);
    return [
      { status: 'done', target: null, message: `Removed ${inMiB(freed)} of lines over the bounds of age and size` },
    ];
  },
};
