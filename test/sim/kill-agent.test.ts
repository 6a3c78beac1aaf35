import { sweep } from './sweep.ts';

sweep('kill-agent', { every: 16, from: 4 });
