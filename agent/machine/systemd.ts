import { access, constants } from 'node:fs/promises';

/** Whether systemd runs this machine and lets the agent make units. */
export async function isOurSystemd(): Promise<boolean> {
  if (process.geteuid?.() !== 0) return false;
  return access('/run/systemd/system', constants.X_OK).then(
    () => true,
    () => false,
  );
}
