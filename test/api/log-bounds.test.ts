import { expect, it } from 'vitest';
import { LogFilter } from '../../agent-protocol/logs.ts';
import { imageLogOf } from '../../api/workloads/image-log.ts';
import { serviceInstancesOf } from '../../api/workloads/instance-ids.ts';
import { composedService } from '../harness/composed-service.ts';
import { aDeployment, anApplication } from '../harness/objects.ts';

/** Most services of a compose file, and most deployments of an application that are kept. */
const [most, kept] = [50, 20];
const version = '11111111-1111-4111-8111-111111111111';

it('an agent can be asked for the lines of each instance of the largest application', () => {
  const services = Array.from({ length: most }, (_, n) => composedService(`service-${n}`, version));
  const deployment = aDeployment(anApplication(), { services });
  const { instances } = imageLogOf(deployment);
  expect(instances?.length).toBeGreaterThan(5000);
  expect(LogFilter.safeParse({ workload_id: 'w', instance_ids: instances }).error).toBeUndefined();
  expect(serviceInstancesOf(deployment, 'service-1').length * kept).toBeLessThan(instances!.length);
});
