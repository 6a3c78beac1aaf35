import { sweep } from './sweep.ts';

sweep('lose-answer', { every: 16, from: 2 });
