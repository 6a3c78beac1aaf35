import { isLoopback, isLoopbackHost, isPrivate } from '../../../agent-protocol/control-plane-url.ts';

interface Options {
  publicUrl: string;
  tenant: string;
  token: string;
  /** Whether there is a release of the agent; otherwise the command is that of a checkout. */
  isReleased: boolean;
  allowPlainHttp: boolean;
}

/** What runs in place of a script that could not be fetched from an address of the control plane's machine. */
const elsewhere =
  'echo "setpoint: Nothing was installed. The address of the control plane is one of its own machine alone: set SETPOINT_PUBLIC_URL there to one that this machine reaches, start it again, and run the command that setpoint join SERVER prints then" >&2; exit 1';

/** The command that makes a machine a server. The token is a variable, as every user of a machine can read arguments. */
export function installCommand({ publicUrl, tenant, token, isReleased, allowPlainHttp }: Options): string {
  const allowed = allowPlainHttp && !isPrivate(publicUrl) ? ' --allow-plain-http' : '';
  const flags = `--server ${publicUrl}/${tenant}${allowed}`;
  if (!isReleased) return `SETPOINT_JOIN_TOKEN=${token} setpoint agent ${flags}`;
  const fetched = `curl -fsSL ${publicUrl}/install.sh`;
  const script = isLoopback(publicUrl) ? `(${fetched} || echo '${elsewhere}')` : fetched;
  return `${script} | SETPOINT_JOIN_TOKEN=${token} sh -s -- ${flags}`;
}

/** What an operator has to know of the address that the command has. `machine`: the address of the server by SSH. */
export function installWarnings(
  { publicUrl, allowPlainHttp }: Pick<Options, 'publicUrl' | 'allowPlainHttp'>,
  machine: string | undefined,
): string[] {
  if (isLoopback(publicUrl) && !(machine !== undefined && isLoopbackHost(machine)))
    return [
      `The address of the control plane, ${publicUrl}, is one of its own machine alone: no other machine can become a server by it. Set SETPOINT_PUBLIC_URL to an address that the machine reaches, start the control plane again, and let setpoint join SERVER print another command`,
    ];
  if (isPrivate(publicUrl)) return [];
  const meaning =
    'By http, others on the network can read the join token and the secrets of workloads, and replace the script and the agent that it installs: its checksums come the same way';
  const state = allowPlainHttp
    ? 'SETPOINT_ALLOW_PLAIN_HTTP declares that this network has no other users'
    : 'The machine refuses it. Let the control plane have an https address (SETPOINT_PUBLIC_URL); on a network without other users, set SETPOINT_ALLOW_PLAIN_HTTP=true for the control plane, or add --allow-plain-http to the command';
  return [`${meaning}. ${state}`];
}
