import { sweep } from './sweep.ts';

sweep('lose-answer', { every: 96, from: 2, turn: 0 });
