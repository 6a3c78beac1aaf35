import { makeJoinToken } from '../agent-protocol/join-token.ts';
import type { AgentReleases } from '../api/ground/agent-release.ts';
import { ApiError } from '../api/ground/api-error.ts';
import type { Random } from '../api/ground/random.ts';
import { installScript } from '../api/pages/install-script.ts';
import type { Installation } from '../controllers/operation/run.ts';

interface Options {
  publicUrl: string;
  allowPlainHttp?: boolean;
  random: Pick<Random, 'bytes'>;
  releases: Pick<AgentReleases, 'current'>;
  controlKey: () => string;
}

/** What the machines of servers get from this replica. */
export interface ForMachines extends Installation {
  /** The version of the agent that they get; `undefined`: there is none, or it is damaged, as the log says. */
  releasedVersion(): Promise<string | undefined>;
}

export function forMachines({ publicUrl, allowPlainHttp = false, random, releases, controlKey }: Options): ForMachines {
  return {
    async script() {
      try {
        const release = await releases.current();
        return release === undefined
          ? { fault: 'absent' }
          : { script: await installScript(release.manifest, publicUrl) };
      } catch (error) {
        if (error instanceof ApiError) return { fault: 'damaged' }; // the log has the reason
        throw error;
      }
    },
    address: (tenant) => `${publicUrl}/${tenant}`,
    allowPlainHttp,
    joinToken: (server) => makeJoinToken(server, random.bytes(16), controlKey()),
    async releasedVersion() {
      const release = await releases.current().catch(() => undefined);
      return release?.manifest.version;
    },
  };
}
