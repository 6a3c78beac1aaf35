import { describe, expect, it } from 'vitest';
import { answerText, byteCount } from '../../../web/pages/function/answer-text.ts';
import { isStarter, runtimes } from '../../../web/pages/function/runtimes.ts';
import { sentTrigger, zoneOf } from '../../../web/pages/function/trigger-fields.ts';
import { lookOf } from '../../../web/parts/status-words.ts';

const json = { 'Content-Type': 'application/json; charset=utf-8' };

describe('the answer of a function', () => {
  it('is set out where it is whole JSON, and shown as it is otherwise', () => {
    const of = (body: string | null, headers: Record<string, string> = json, truncated = false) =>
      answerText({ body, headers, truncated });
    expect(of('{"a":1}')).toBe('{\n  "a": 1\n}');
    expect(of('{"a":1}', { 'content-type': 'application/problem+json' })).toBe('{\n  "a": 1\n}');
    expect(of('{"a":1}', { 'content-type': 'text/plain' })).toBe('{"a":1}');
    expect(of('{"a":1', json, true)).toBe('{"a":1');
    expect(of('{"a":')).toBe('{"a":');
    expect(of(null)).toBeUndefined();
  });

  it('that is no text has as many bytes as its base64 stands for', () => {
    for (const text of ['', 'a', 'ab', 'abc', 'abcd']) expect(byteCount(btoa(text))).toBe(text.length);
  });
});

describe('the form of a function', () => {
  it('replaces code to begin with, and never what somebody has written', () => {
    for (const { starter } of Object.values(runtimes)) expect(isStarter(starter)).toBe(true);
    expect(isStarter('')).toBe(true);
    expect(isStarter(`${runtimes.go.starter}\n`)).toBe(false);
  });

  it('sends of what calls it the fields of that alone', () => {
    const values = {
      exposed_port: 1,
      schedule: '0 3 * * *',
      schedule_config: { timezone: 'Europe/Berlin' },
      name: 'a',
    };
    expect(sentTrigger(values, { trigger_type: 'http' })).toEqual({ exposed_port: 1, name: 'a' });
    const { exposed_port: _, ...ofCron } = values;
    expect(sentTrigger(values, { trigger_type: 'cron' })).toEqual(ofCron);
    expect(zoneOf(values)).toBe('Europe/Berlin');
    expect(zoneOf({ schedule_config: null })).toBe('UTC');
  });
});

describe('the words of a function', () => {
  const running = (reason: string) => ({ status: 'running', conditions: [{ type: 'Ready', status: 'false', reason }] });

  it('say that its newest version failed, and that it is being stopped', () => {
    expect(lookOf('function', running('VersionFailed'))).toEqual({
      word: 'Running, newest version failed',
      shape: 'warn',
    });
    expect(lookOf('function', running('Stopping')).word).toBe('Stopping');
    expect(lookOf('function', running('Starting')).word).toBe('Running');
    expect(lookOf('function_version', { status: 'ready', is_active: true }).word).toBe('Serving');
    expect(lookOf('function_version', { status: 'ready', is_active: false }).word).toBe('Ready');
  });
});
