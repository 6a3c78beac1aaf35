import type { Logger } from 'pino';
import { makeJoinToken } from '../agent-protocol/join-token.ts';
import { agentReleases } from '../api/ground/agent-release.ts';
import { ApiError } from '../api/ground/api-error.ts';
import type { Random } from '../api/ground/random.ts';
import { installScript } from '../api/pages/install-script.ts';
import type { Installation } from '../controllers/operation/run.ts';

interface Options {
  publicUrl: string;
  random: Pick<Random, 'bytes'>;
  log: Logger;
  /** Folder with the release of the agent. */
  agentRelease?: string | undefined;
  controlKey: () => string;
}

/** What the machines that are provisioned get from this replica. */
export function installation({ publicUrl, random, log, agentRelease, controlKey }: Options): Installation {
  const releases = agentReleases(agentRelease, log);
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
    address: (tenant) => `${publicUrl.replace(/\/$/, '')}/${tenant}`,
    joinToken: (server) => makeJoinToken(server, random.bytes(16), controlKey()),
  };
}
