import { sweep } from './sweep.ts';

sweep('kill-agent', { every: 4, from: 4 });
