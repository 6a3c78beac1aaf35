import { sweep } from './sweep.ts';

sweep('lose-answer', { every: 4, from: 2 });
