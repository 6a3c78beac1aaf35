const units = { b: 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3 } as const;

/**
 * Bytes of a size such as `512m` or `1.5g`.
 *
 * @throws RangeError if the text is no such size.
 */
export function parseMemory(text: string): number {
  const unit = text.at(-1);
  const amount = Number(text.slice(0, -1));
  if ((unit !== 'b' && unit !== 'k' && unit !== 'm' && unit !== 'g') || !Number.isFinite(amount) || amount <= 0)
    throw new RangeError(`Memory limit must be a number and one of b, k, m, g: got ${text}`);
  return Math.round(amount * units[unit]);
}

/**
 * Billionths of a processor, as container engines count them.
 *
 * @throws RangeError if the text is no positive decimal number.
 */
export function parseCpus(text: string): number {
  const cpus = Number(text);
  if (!Number.isFinite(cpus) || cpus <= 0) throw new RangeError(`CPU limit must be a positive number: got ${text}`);
  return Math.round(cpus * 1e9);
}
