import { Counter, Histogram } from 'prom-client';
import type { Registry } from 'prom-client';
import type { Logger } from 'pino';

/** One answered request. `route` is the name of a row of permissions, so that it has few values. */
export interface AnsweredRequest {
  id: string;
  method: string;
  route: string;
  status: number;
  ms: number;
  tenant: string | undefined;
  caller: string | undefined;
}

/** Counts and logs answered requests: reads at level debug, others at info. */
export function createRequestLog(registry: Registry, log: Logger): (answered: AnsweredRequest) => void {
  const seconds = new Histogram({
    name: 'setpoint_http_request_seconds',
    help: 'Time to answer a request of the REST interface',
    labelNames: ['route'],
    buckets: [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10],
    registers: [registry],
  });
  const total = new Counter({
    name: 'setpoint_http_requests_total',
    help: 'Answered requests of the REST interface',
    labelNames: ['route', 'status'],
    registers: [registry],
  });
  // looking up a child by its labels costs more than counting
  const children = new Map<string, { seconds: Histogram.Internal<'route'>; total: Map<number, Counter.Internal> }>();
  const childrenOf = (route: string) => {
    let found = children.get(route);
    if (found === undefined) children.set(route, (found = { seconds: seconds.labels(route), total: new Map() }));
    return found;
  };
  return (answered) => {
    const { route, status } = answered;
    const child = childrenOf(route);
    child.seconds.observe(answered.ms / 1000);
    let count = child.total.get(status);
    if (count === undefined) child.total.set(status, (count = total.labels(route, String(status))));
    count.inc();
    if (answered.method === 'GET') log.debug(answered, 'request answered');
    else log.info(answered, 'request answered');
  };
}
