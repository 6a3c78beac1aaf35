import { isIP } from 'node:net';
import type { SharedBridge } from '../runtime/runtime.ts';
import { assertName, hostRules, linkLocal, refusal, type Chain, type Chains, type Family } from './rules.ts';

/**
 * Keeps the steps of builds on the bridge that the engine runs them on from link-local addresses, from programs that
 * listen on the machine, and from others on the bridge. Containers of others are there, too: all that comes from their
 * addresses passes. What the engine does not list as a container is taken for a step.
 */
export function stepChains(
  chains: Chains,
  family: Family,
  bridge: SharedBridge,
  operatorChain: string | undefined,
): Chain[] {
  assertName(bridge.name);
  const [version, bits] = family === 'ipv4' ? [4, 32] : [6, 128];
  const others = bridge.addresses
    .filter((address) => isIP(address) === version)
    .toSorted()
    .map((address) => `-s ${address}/${bits} -j RETURN`);
  return [
    {
      table: 'filter',
      name: chains.steps,
      rules: [
        ...others,
        ...linkLocal[family].map((range) => `-d ${range} -j REJECT --reject-with ${refusal[family]}`),
        `-o ${bridge.name} -m conntrack --ctstate RELATED,ESTABLISHED -j RETURN`,
        `-o ${bridge.name} -j REJECT --reject-with ${refusal[family]}`,
      ],
      jumps: [{ from: 'FORWARD', condition: `-i ${bridge.name} `, place: 'first' }],
    },
    {
      table: 'filter',
      name: chains.stepsHost,
      rules: [...others, ...hostRules(family, operatorChain)],
      jumps: [{ from: 'INPUT', condition: `-i ${bridge.name} `, place: 'first' }],
    },
  ];
}
