import type { Proxy } from './proxy.ts';

/** A proxy in memory, which takes every configuration and has a certificate for every host. */
export function mockProxy(): Proxy {
  let loaded: unknown;
  return {
    serve: () => Promise.resolve({ ports: { names: 1, asks: 2 }, [Symbol.asyncDispose]: () => Promise.resolve() }),
    config: () => Promise.resolve(loaded),
    load: (config) => {
      loaded = config;
      return Promise.resolve();
    },
    certificate: (host) => Promise.resolve({ host, issuer: 'mock', expires_at: '2100-01-01T00:00:00.000Z' }),
  };
}
