import { describe, expect, test } from 'vitest';
import { lookOf, lookOfStatus, shapesByUrgency, statusesOf } from '../../web/parts/status-words.ts';

const condition = (type: string, status: string, reason = 'Reason') => ({ type, status, reason, message: '' });

describe('the words of a status', () => {
  test('of a running application follow its replicas and its newest deployment', () => {
    const all = { status: 'running', replicas: 3, ready_replicas: 3, conditions: [] };
    expect(lookOf('application', all)).toEqual({ word: 'Running', shape: 'good' });
    expect(lookOf('application', { ...all, ready_replicas: 1 })).toEqual({ word: 'Running 1 of 3', shape: 'warn' });
    const unready = (reason: string) =>
      lookOf('application', { ...all, conditions: [condition('Ready', 'false', reason)] });
    expect(unready('RolloutFailed')).toEqual({ word: 'Running, newest deployment failed', shape: 'warn' });
    expect(unready('CrashLoop')).toEqual({ word: 'Running, a process keeps exiting', shape: 'warn' });
    expect(unready('Degraded')).toEqual({ word: 'Running, an instance is not ready', shape: 'warn' });
    expect(lookOf('application', { ...all, conditions: [condition('Ready', 'true', 'Covered')] }).word).toBe('Running');
  });

  test('of an application that has ended by itself are not those of one that was stopped', () => {
    const ended = { status: 'stopped', conditions: [condition('Ready', 'false', 'Completed')] };
    expect(lookOf('application', ended).word).toBe('Finished');
    expect(lookOf('application', { status: 'stopped', conditions: [] }).word).toBe('Stopped');
  });

  test('of a deployment say which one serves', () => {
    expect(lookOf('deployment', { status: 'succeeded', serving: true }).word).toBe('Serving');
    expect(lookOf('deployment', { status: 'succeeded' }).word).toBe('Succeeded');
  });

  test('of a database that is restored are not those of one that is made', () => {
    const restored = { status: 'provisioning', conditions: [condition('Restoring', 'true')] };
    expect(lookOf('database', restored).word).toBe('Being restored');
    expect(lookOf('database', { status: 'provisioning', conditions: [] }).word).toBe('Being made');
  });

  test('of a newer server are its raw value, with a ring', () => {
    expect(lookOfStatus('server', 'hibernating')).toEqual({ word: 'hibernating', shape: 'waiting' });
  });

  test('stand in an order of urgency that has every shape of every kind', () => {
    const shapes = new Set(statusesOf('application').map((status) => lookOfStatus('application', status).shape));
    for (const shape of shapes) expect(shapesByUrgency).toContain(shape);
    expect(shapesByUrgency[0]).toBe('bad');
  });
});
