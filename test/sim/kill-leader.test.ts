import { sweep } from './sweep.ts';

sweep('kill-leader', { every: 96, from: 5, turn: 1 });
