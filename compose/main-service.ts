interface Candidate {
  readonly name: string;
  readonly ports: readonly { readonly port: number; readonly publish?: number | undefined }[];
}

/**
 * The service that requests are for: the one of that name, the first that listens on that port, the first that publishes a
 * port, the first that has a port, or the first of all. `undefined`: there is none of that name, or none at all.
 */
export function mainServiceOf<S extends Candidate>(
  services: readonly S[],
  { name, port }: { name?: string | undefined; port?: number | undefined },
): S | undefined {
  if (name !== undefined) return services.find((it) => it.name === name);
  return (
    (port === undefined ? undefined : services.find(({ ports }) => ports.some((it) => it.port === port))) ??
    services.find(({ ports }) => ports.some(({ publish }) => publish !== undefined)) ??
    services.find(({ ports }) => ports.length > 0) ??
    services[0]
  );
}
