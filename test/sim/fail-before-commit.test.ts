import { sweep } from './sweep.ts';

sweep('fail-before-commit', { every: 16, from: 1 });
