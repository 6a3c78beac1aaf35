import { describeRecovery } from '../harness/recovery-life.ts';

describeRecovery({ instants: 20, isWhole: true });
