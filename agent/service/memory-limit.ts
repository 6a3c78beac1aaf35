import type { ServiceItem } from './memory.ts';

/** The memory that a service may use, and what to do where that is too little. */
export function memoryLimit(desired: ServiceItem | undefined): string {
  const bytes = desired?.spec.limits.memory_bytes;
  const limit =
    bytes === undefined
      ? 'the share that an instance without a limit gets'
      : `its limit of ${Math.round(bytes / 1024 / 1024)} MiB`;
  return `${limit}: set a ${bytes === undefined ? '' : 'higher '}memory_limit, or let it use less`;
}
