import { sweep } from './sweep.ts';

sweep('kill-control-plane', { every: 3, from: 3 });
