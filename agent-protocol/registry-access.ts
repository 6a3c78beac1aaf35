import { z } from 'zod';

/** What the images of a workload may be pulled with. It is sent only to the registry that it names. */
export const RegistryAccess = z.union([
  /** `registry`: `HOST` or `HOST:PORT` in lower case, as images name it. */
  z.object({ registry: z.string(), username: z.string(), password: z.string() }),
  /** The control plane cannot give it, for this reason: nothing of that registry is pulled without it. */
  z.object({ registry: z.string(), failure: z.string() }),
]);
export type RegistryAccess = z.infer<typeof RegistryAccess>;
