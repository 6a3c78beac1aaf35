import { z } from 'zod';

/** What provisioning comes by, in this order. Each is a condition of the server. */
export const provisioningSteps = [
  'Reachable',
  'HostKeyTrusted',
  'LoggedIn',
  'MachineFits',
  'EngineInstalled',
  'AgentInstalled',
  'AgentJoined',
] as const;
export type StepName = (typeof provisioningSteps)[number];

/** The state of one of the {@link provisioningSteps}, as a condition; other releases may have other steps. */
export const ProvisioningStep = z.object({
  type: z.string(),
  status: z.enum(['true', 'false', 'unknown']),
  reason: z.string(),
  message: z.string(),
});
export type ProvisioningStep = z.infer<typeof ProvisioningStep>;
