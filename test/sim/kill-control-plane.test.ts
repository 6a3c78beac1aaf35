import { sweep } from './sweep.ts';

sweep('kill-control-plane', { every: 16, from: 3 });
