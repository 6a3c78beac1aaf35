import type { OperationType } from '../../store/kinds/operation.ts';
import type { Run } from './run.ts';
import { provision } from '../provision/provision.ts';
import { compose } from './compose.ts';
import { dockerfile } from './dockerfile.ts';
import { heal } from './heal.ts';
import { sync } from './sync.ts';
import { validate } from './validate.ts';

/** How each type of operation is carried out: a type without a row does not compile. */
export const runs: Readonly<Record<OperationType, Run>> = { sync, heal, validate, provision, dockerfile, compose };
