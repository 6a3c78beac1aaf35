import { sweep } from './sweep.ts';

sweep('kill-agent', { every: 48, from: 4, turn: 1 });
