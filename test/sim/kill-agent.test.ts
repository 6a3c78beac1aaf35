import { sweep } from './sweep.ts';

sweep('kill-agent', { every: 96, from: 4, turn: 1 });
