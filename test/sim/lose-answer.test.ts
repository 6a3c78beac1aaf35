import { sweep } from './sweep.ts';

sweep('lose-answer', { every: 3, from: 2 });
