import { parentPort, workerData } from 'node:worker_threads';
import { keyPairOf } from './key-pair.ts';
import type { KeyPairOrder } from './key-pair.ts';

// `createKeyPairs` starts this file with an order
parentPort?.postMessage(keyPairOf(workerData as KeyPairOrder));
