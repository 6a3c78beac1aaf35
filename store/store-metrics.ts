import { Gauge } from 'prom-client';
import type { Registry } from 'prom-client';
import type { Store, StoreSize } from './store.ts';

/** Size and room of the store, measured when the metrics are read; NaN if the store does not answer. */
export function storeMetrics(registry: Registry, store: Pick<Store, 'size'>): void {
  let asked: Promise<StoreSize> | undefined;
  const size = (): Promise<StoreSize> => {
    asked ??= store
      .size()
      .catch(() => ({ bytes: Number.NaN, room: Number.NaN }))
      .finally(() => (asked = undefined));
    return asked;
  };
  const gauge = (name: string, help: string, read: (of: StoreSize) => number): void => {
    const made: Gauge = new Gauge({
      name,
      help,
      registers: [registry],
      collect: async () => made.set(read(await size())),
    });
  };
  gauge('setpoint_store_bytes', 'Bytes that the store takes on disk, history included', ({ bytes }) => bytes);
  gauge('setpoint_store_room_bytes', 'Bytes that may be written before the store refuses writes', ({ room }) => room);
}
