import { isLoopback, isLoopbackHost, isPrivate } from '../../agent-protocol/control-plane-url.ts';
import { isUsableAddress } from './job.ts';
import { triesAgain } from './steps.ts';
import type { Fault } from './steps.ts';

const step = 'AgentInstalled';

/**
 * Why a machine must not be given that address of the control plane; `undefined`: it may. `machine`: its address by SSH.
 * Pure.
 */
export function faultOfAddress(
  address: string,
  { machine = '', allowPlainHttp }: { machine?: string | undefined; allowPlainHttp: boolean },
): Fault | undefined {
  if (!isUsableAddress(address))
    return {
      step,
      reason: 'AddressUnusable',
      message: `The address of the control plane has characters that no script takes: ${address}`,
      remedy: 'Set --public-url to a plain https address',
      isFinal: true,
    };
  if (isLoopback(address) && !isLoopbackHost(machine))
    return {
      step,
      reason: 'AddressLoopback',
      message: `The address of the control plane is one of its own machine alone, and nothing was done on this one: ${address}`,
      remedy: `Set SETPOINT_PUBLIC_URL to an address that the machine reaches, and start the control plane again; ${triesAgain}`,
      isFinal: true,
    };
  if (isPrivate(address) || allowPlainHttp) return undefined;
  return {
    step,
    reason: 'PlainHttp',
    message: `With http, others on the network can read the join token and the secrets of workloads, and replace the agent, and nothing was done on the machine: ${address}`,
    remedy: `Let the control plane have an https address (SETPOINT_PUBLIC_URL), or set SETPOINT_ALLOW_PLAIN_HTTP=true for it on a network without other users; ${triesAgain}`,
    isFinal: true,
  };
}
