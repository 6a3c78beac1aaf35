import { z } from 'zod';
import { clusterRequest } from '../cluster-request.ts';

const NewPassword = z.object({ data: z.object({ password: z.string() }) });
const TwoFactor = z.object({ data: z.object({ was_enabled: z.boolean() }) });
const Ended = z.object({ data: z.object({ sessions: z.number(), keys: z.number() }) });

/** Prints the new password on standard output, and nothing else there. */
export async function resetPassword(dataDir: string, tenant: string, email: string): Promise<void> {
  const answer = await clusterRequest(dataDir, 'POST', '/users/reset-password', { tenant, email });
  const { password } = NewPassword.parse(answer).data;
  console.error(`The password of ${email} is now as follows; every session and service key of the account has ended`);
  console.log(password);
}

export async function resetTwoFactor(dataDir: string, tenant: string, email: string): Promise<void> {
  const answer = await clusterRequest(dataDir, 'POST', '/users/reset-two-factor', { tenant, email });
  const { was_enabled } = TwoFactor.parse(answer).data;
  console.log(
    was_enabled
      ? `${email} logs in without a second factor now; every session of the account has ended`
      : `${email} had no second factor`,
  );
}

/** Ends every session and service key of a tenant, as after a restore of the store. */
export async function endSessions(dataDir: string, tenant: string): Promise<void> {
  const { sessions, keys } = Ended.parse(await clusterRequest(dataDir, 'POST', '/users/end-sessions', { tenant })).data;
  console.log(`${counted(sessions, 'session')} and ${counted(keys, 'service key')} of tenant ${tenant} have ended`);
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}
