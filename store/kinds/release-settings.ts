import { z } from 'zod';

/** Most instances of an application beyond its replicas, while others take their place. */
const mostSurge = 20;

/** What engines give a process to end. */
export const usualGraceSeconds = 10;

/**
 * How new instances of an application take the place of others. Each absent field has its default. They count at once,
 * without a deployment.
 */
export const releaseSettings = {
  /** Instances beyond `replicas` that may live while others take their place. */
  max_surge: z.int().min(1).max(mostSurge).optional(),
  /** Time for which an instance must have been ready before it takes the place of another one. */
  min_healthy_seconds: z.int().min(0).max(600).optional(),
  /** Seconds from the start of a new instance in which it must have been ready for so long, or its deployment fails. */
  healthy_deadline: z.int().min(1).max(3600).optional(),
  /** Most time that open connections have to end before an instance is stopped. */
  drain_seconds: z.int().min(0).max(3600).optional(),
  /** Time that a process has to end once it is asked to, before it is killed. */
  stop_grace_seconds: z.int().min(1).max(3600).optional(),
};

interface ReleaseFields {
  readonly max_surge?: number | undefined;
  readonly min_healthy_seconds?: number | undefined;
  readonly healthy_deadline?: number | undefined;
  readonly drain_seconds?: number | undefined;
  readonly stop_grace_seconds?: number | undefined;
}

/** The settings with their defaults, which are those of Nomad, and that of engines for the time to end. */
export function releaseOf(fields: ReleaseFields) {
  const { max_surge, min_healthy_seconds, healthy_deadline, drain_seconds, stop_grace_seconds } = fields;
  return {
    maxSurge: max_surge ?? 1,
    minHealthySeconds: min_healthy_seconds ?? 10,
    healthyDeadline: healthy_deadline ?? 300,
    drainSeconds: drain_seconds ?? 30,
    stopGraceSeconds: stop_grace_seconds ?? usualGraceSeconds,
  };
}
