import type { DeepReadonly } from '../deep-readonly.ts';
import { domainName } from '../kinds/domain.ts';
import type { Domain } from '../kinds/domain.ts';

type Domains = DeepReadonly<Domain[]>;

/**
 * The domains that are there, as a declaration compares itself with them. Who logs in at a domain is declared only where the
 * declaration names users of it: those of the others are of the person who set them. Pure.
 */
export function withoutOwnUsers(live: Domains, declared: Domains): Domains {
  return live.map((one) => (successorOf(one, { live, declared })?.basic_auth.length === 0 ? open(one) : one));
}

/** The domains that a declaration leads to, with the users that persons have set where it names none. Pure. */
export function withOwnUsers(declared: Domains, live: Domains): Domains {
  return declared.map((one) => {
    const before = live.find((other) => successorOf(other, { live, declared }) === one);
    return one.basic_auth.length > 0 || before === undefined ? one : { ...one, basic_auth: before.basic_auth };
  });
}

function open(one: DeepReadonly<Domain>): DeepReadonly<Domain> {
  return { ...one, basic_auth: [] };
}

/** What a declaration has in the place of a domain: the same, or the host that its path is to have instead, one after the other. */
function successorOf(
  one: DeepReadonly<Domain>,
  { live, declared }: { live: Domains; declared: Domains },
): DeepReadonly<Domain> | undefined {
  const isIn = (all: Domains, it: DeepReadonly<Domain>): boolean =>
    all.some((other) => domainName(other) === domainName(it));
  if (isIn(declared, one)) return declared.find((other) => domainName(other) === domainName(one));
  const gone = live.filter((other) => other.path === one.path && !isIn(declared, other));
  const come = declared.filter((other) => other.path === one.path && !isIn(live, other));
  return come[gone.indexOf(one)];
}
