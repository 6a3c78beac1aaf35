import { sweep } from './sweep.ts';

sweep('kill-leader', { every: 6, from: 2 });
