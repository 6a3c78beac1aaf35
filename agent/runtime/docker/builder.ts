import { z } from 'zod';
import type { Builder } from '../runtime.ts';
import type { Engine } from './engine.ts';

const Version = z.object({
  Version: z.string(),
  Os: z.string().optional(),
  Arch: z.string().optional(),
  Components: z.array(z.object({ Name: z.string() })).nullish(),
});

/** Returns how the engine builds. Every Docker engine that is supported has BuildKit; others that speak its API have not. */
export async function builder(engine: Engine, signal: AbortSignal): Promise<Builder> {
  const answer = Version.parse(await engine.call({ method: 'GET', path: ['version'] }, signal));
  const version = Number(/^\d+/.exec(answer.Version)?.[0] ?? 0);
  const isDocker = answer.Components?.some(({ Name }) => Name === 'Engine') === true;
  const { Os: os, Arch: architecture } = answer;
  const platform = os === undefined || architecture === undefined ? {} : { platform: `${os}/${architecture}` };
  return isDocker ? { type: 'buildkit', version, ...platform } : { type: 'classic', ...platform };
}
