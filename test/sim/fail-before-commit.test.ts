import { sweep } from './sweep.ts';

sweep('fail-before-commit', { every: 4, from: 1 });
