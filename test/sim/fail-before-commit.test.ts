import { sweep } from './sweep.ts';

sweep('fail-before-commit', { every: 48, from: 1, turn: 0 });
