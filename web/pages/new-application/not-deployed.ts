import { refusalOf } from '../../parts/refusal.ts';

/** What is said of an application that is made, and whose first deployment was refused. */
export function notDeployed(name: string, failure: unknown): string {
  return `${name} is created, and not deployed: ${refusalOf(failure).message}`;
}
