import { describeRecovery } from '../harness/recovery-life.ts';

describeRecovery({ instants: 1, isWhole: false });
