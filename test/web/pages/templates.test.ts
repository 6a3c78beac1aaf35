import { expect, it } from 'vitest';
import { waveSteps } from '../../../web/pages/template-instance/wave-steps.ts';
import type { Child } from '../../../web/pages/template-instance/wave-steps.ts';
import { faultsOf, sentValues } from '../../../web/pages/template/variable-values.ts';

const child = (wave: number, state: Child['state']): Child => ({
  kind: 'application',
  id: `${wave} ${state}`,
  key: 'web',
  name: 'web',
  wave,
  state,
  message: '',
});

it('a wave is done once all of it is up, and fails with a part of it', () => {
  const steps = waveSteps([child(2, 'waiting'), child(0, 'up'), child(1, 'up'), child(1, 'starting')]);
  expect(steps.map(({ name, status, detail }) => [name, status, detail])).toEqual([
    ['Wave 1', 'done', '1 of 1'],
    ['Wave 2', 'running', '1 of 2'],
    ['Wave 3', 'waiting', '0 of 1'],
  ]);
  expect(waveSteps([child(0, 'failed'), child(0, 'up')])[0]?.status).toBe('failed');
});

const variable = {
  name: 'DOMAIN',
  type: 'domain' as const,
  display_name: null,
  description: null,
  required: true,
  secret: false,
  default: null,
  pattern: null,
  options: null,
  generated: false,
};

it('variables that need a value, and values of another form, are named', () => {
  expect(faultsOf([variable], {})).toEqual({ DOMAIN: 'DOMAIN needs a value' });
  expect(faultsOf([{ ...variable, generated: true }], {})).toEqual({});
  expect(faultsOf([{ ...variable, default: 'a' }], {})).toEqual({});
  expect(faultsOf([{ ...variable, pattern: '[a-z]+' }], { DOMAIN: 'a1' })).toEqual({
    DOMAIN: 'DOMAIN has the form [a-z]+',
  });
  expect(faultsOf([{ ...variable, type: 'port' }], { DOMAIN: 'x' })).toEqual({ DOMAIN: 'DOMAIN is a number' });
});

it('only values that were entered are sent', () => {
  expect(sentValues({ A: 'a', B: undefined })).toEqual({ A: 'a' });
});
