import { sweep } from './sweep.ts';

sweep('fail-before-commit', { every: 96, from: 1, turn: 0 });
