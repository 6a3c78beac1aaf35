import type { TroubleWords } from '../trouble-words.ts';

export const dockerWords: TroubleWords = {
  byCode: {
    ENOENT: {
      reason: 'EngineNotRunning',
      advice: 'its socket is not there. Install Docker, or start it: systemctl start docker',
    },
    ECONNREFUSED: {
      reason: 'EngineNotRunning',
      advice: 'no process listens on its socket. Start it: systemctl start docker',
    },
    EACCES: {
      reason: 'EngineForbidden',
      advice: 'the agent may not use its socket. Run the agent as root, or in the group of the socket',
    },
  },
  hangs: 'it takes calls and does not answer them. See journalctl -u docker, and restart it: systemctl restart docker',
};
