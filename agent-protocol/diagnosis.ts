import { z } from 'zod';

/** What an agent examines on its machine, in the order of its answer. Names are stable: users and scripts know them. */
export const machineChecks = [
  'engine',
  'runc',
  'live_restore',
  'disk',
  'inodes',
  'memory',
  'inotify',
  'git',
  'address_pools',
  'firewall',
  'dns',
  'registry',
  'port_80',
  'port_443',
  'proxy',
  'orphaned_containers',
  'orphaned_networks',
  'orphaned_volumes',
  'log_storage',
] as const;
export type MachineCheck = (typeof machineChecks)[number];

/** Those whose findings an agent can heal by itself. */
export const healableChecks = [
  'disk',
  'orphaned_containers',
  'orphaned_networks',
  'orphaned_volumes',
  'log_storage',
] as const satisfies readonly MachineCheck[];
export const HealableCheck = z.enum(healableChecks);
export type HealableCheck = z.infer<typeof HealableCheck>;

/** Bounds of the answers to `diagnose` and `heal`. */
export const diagnosisLimits = { checks: 64, actions: 200, chars: 1000 } as const;

const Text = z.string().max(diagnosisLimits.chars);

export const CheckStatus = z.enum(['pass', 'warn', 'fail']);
export type CheckStatus = z.infer<typeof CheckStatus>;

/** What a check found. `name` is a text, as an agent of a later release may have further checks. */
export const CheckResult = z.object({
  name: z.string().max(64),
  status: CheckStatus,
  message: Text,
  /** What to do; null: nothing. */
  remediation: Text.nullable(),
  /** `heal` can do something about it. */
  auto_fixable: z.boolean(),
});
export type CheckResult = z.infer<typeof CheckResult>;

/** Answer to `diagnose`. */
export const Diagnosis = z.object({
  /** The agent's time when it answered, RFC 3339. */
  at: z.string().max(64),
  checks: z.array(CheckResult).max(diagnosisLimits.checks),
});
export type Diagnosis = z.infer<typeof Diagnosis>;

/** What became of one thing that was to be healed. */
export const HealAction = z.object({
  check: z.string().max(64),
  status: z.enum(['done', 'skipped', 'failed']),
  /** Name or id of what it was done to; null: the machine as a whole. */
  target: z.string().max(256).nullable(),
  /** What was done; or why it was not, and what to do. */
  message: Text,
});
export type HealAction = z.infer<typeof HealAction>;

/** Answer to `heal`. */
export const Healing = z.object({ actions: z.array(HealAction).max(diagnosisLimits.actions) });
export type Healing = z.infer<typeof Healing>;

/** The agent answers within these times, whatever hangs on its machine. */
export const diagnosisTiming = { examineMs: 10_000, healMs: 40_000 } as const;
