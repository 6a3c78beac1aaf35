import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const api = join(import.meta.dirname, '../../api');

/** What commits by itself, and why nobody need know who did it. */
const exceptions = new Map([
  ['run-endpoint.ts', 'the one place where handlers commit'],
  ['budgets/budgets.ts', 'commits for that place, if there is room'],
  ['audit/audit-log.ts', 'the records themselves'],
  ['auth/key-use.ts', 'notes that a key was used: nobody asked for it'],
  ['auth/login-codes.ts', 'counts wrong guesses: the login that failed is recorded'],
  ['auth/recover-account.ts', 'records what the operator does'],
  ['auth/stream-tickets.ts', 'lets the caller open a stream and is used up by it: neither changes anything'],
  ['auth/short-secrets.ts', 'a key of the installation, made at its start'],
  ['auth/signing-keys.ts', 'keys of the installation, made at its start'],
  ['idempotency.ts', 'forgets answers that have expired'],
]);

test('nothing of the interface commits past the audit log', () => {
  const files = readdirSync(api, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
  const committing = files.filter((name) => {
    const text = readFileSync(join(api, name), 'utf8');
    const imports = /import \{[^}]*\bcommit\b[^}]*\} from '[./]*store\/unit\.ts'/.test(text);
    return imports || /\.commit\(\)|\b(unit|budgets)\.commit\(|\bstore\.txn\(|\brepo\.(change|observe)\(/.test(text);
  });
  expect(committing.toSorted()).toEqual([...exceptions.keys()].toSorted());
});
