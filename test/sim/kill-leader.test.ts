import { sweep } from './sweep.ts';

sweep('kill-leader', { every: 8, from: 5 });
