import { sweep } from './sweep.ts';

sweep('kill-control-plane', { every: 48, from: 3, turn: 0 });
