import { sweep } from './sweep.ts';

sweep('fail-before-commit', { every: 3, from: 1 });
