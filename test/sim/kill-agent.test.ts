import { sweep } from './sweep.ts';

sweep('kill-agent', { every: 3, from: 2 });
