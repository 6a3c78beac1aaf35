import { sweep } from './sweep.ts';

sweep('lose-answer', { every: 48, from: 2, turn: 0 });
