import { afterAll, beforeAll, describe, test } from 'vitest';
import { backends } from './store-backends.ts';
import type { Case } from './store-backends.ts';
import { historyCases } from './store-history.ts';
import { failingLeaseCases, leaseCases } from './store-leases.ts';
import { listCases } from './store-lists.ts';
import { transactionCases } from './store-transactions.ts';
import { watchCases } from './store-watches.ts';

describe.each(backends)('The contract of a store, kept by $name', (backend) => {
  beforeAll(() => backend.start());
  afterAll(() => backend.stop());

  const it: Case = (name, body) =>
    test(name, async () => {
      await using rig = await backend.rig();
      await body(rig);
    });

  describe('transactions', () => transactionCases(it));
  describe('lists', () => listCases(it));
  describe('watches', () => watchCases(it));
  describe('leases', () => leaseCases(it));
  if (backend.canFail) describe('leases of a store that fails', () => failingLeaseCases(it));
  describe('history', () => historyCases(it));
});
