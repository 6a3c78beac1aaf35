import { sweep } from './sweep.ts';

sweep('kill-leader', { every: 32, from: 5 });
