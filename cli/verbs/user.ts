import { z } from 'zod';
import { clusterRequest } from '../cluster-request.ts';

const NewPassword = z.object({ data: z.object({ password: z.string() }) });
const TwoFactor = z.object({ data: z.object({ was_enabled: z.boolean() }) });

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
