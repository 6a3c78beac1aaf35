import { z } from 'zod';
import { CheckResult, CheckStatus } from '../../agent-protocol/diagnosis.ts';
import { defineEndpoint } from '../endpoint/endpoint.ts';
import { worstOf } from '../workloads/diagnosis.ts';
import { judgeSystem, systemFacts } from '../workloads/system-diagnosis.ts';

export const diagnoseSystem = defineEndpoint({
  method: 'GET',
  path: '/system/diagnose',
  summary: 'Examine the control plane: its store, its replicas and its keys, with what to do about each finding',
  heavy: true,
  response: z.object({
    status: CheckStatus.meta({ description: 'The worst of the checks' }),
    checks: z.array(CheckResult),
  }),
  handle: async (ctx) => {
    const checks = judgeSystem(await systemFacts(ctx));
    return { status: worstOf(checks), checks };
  },
});
