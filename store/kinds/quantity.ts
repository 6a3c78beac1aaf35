/** A size with its unit. */
export const memoryPattern = /^\d{1,12}(\.\d{1,6})?[bkmg]$/;
/** The least memory with which container engines start a container. */
const leastMemory = 6 * 1024 * 1024;
const units: ReadonlyMap<string, number> = new Map([
  ['b', 1],
  ['k', 1024],
  ['m', 1024 ** 2],
  ['g', 1024 ** 3],
]);

/** Bytes of a size such as `512m` or `1.5g`; `fault` describes what is wrong with any other text. */
export function parseMemory(text: string): { bytes: number } | { fault: string } {
  const unit = units.get(text.at(-1) ?? '');
  if (unit === undefined || !memoryPattern.test(text)) return { fault: 'Must be a size such as 512m or 1.5g' };
  const bytes = Math.round(Number(text.slice(0, -1)) * unit);
  return bytes < leastMemory ? { fault: 'Must be at least 6m' } : { bytes };
}

/** Billionths of a processor, as container engines count them; `fault` describes what is wrong with any other text. */
export function parseCpus(text: string): { nanoCpus: number } | { fault: string } {
  // a number in JSON may have more digits than a text is allowed
  if (!/^\d{1,3}(\.\d{1,20})?$/.test(text)) return { fault: 'Must be a number of CPUs such as 0.5' };
  const cpus = Number(text);
  return cpus < 0.01 || cpus > 256 ? { fault: 'Must be 0.01 to 256' } : { nanoCpus: Math.round(cpus * 1e9) };
}
