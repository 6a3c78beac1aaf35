import { sweep } from './sweep.ts';

sweep('kill-control-plane', { every: 96, from: 3, turn: 0 });
