import { sweep } from './sweep.ts';

sweep('kill-control-plane', { every: 4, from: 3 });
