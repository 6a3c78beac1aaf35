import { describe, expect, it } from 'vitest';
import { admission } from '../../../controllers/gateway/admission.ts';
import { FakeClock } from '../../harness/fake-clock.ts';

describe('admission', () => {
  it('takes a second worth of agents at once, and sends each of the others to a later place', () => {
    const admit = admission(new FakeClock(), 40);
    const answers = Array.from({ length: 100 }, () => admit());
    expect(answers.filter((it) => it.admitted)).toHaveLength(40);
    const waits = answers.flatMap((it) => (it.admitted ? [] : [it.retryAfterMs]));
    expect(waits).toEqual(Array.from({ length: 60 }, (_, place) => 50 + 25 * place));
  });

  it('takes as many per second as it may, however long it was quiet', async () => {
    const clock = new FakeClock();
    const admit = admission(clock, 40);
    await clock.advance(60_000);
    expect(Array.from({ length: 50 }, () => admit()).filter((it) => it.admitted)).toHaveLength(40);
    await clock.advance(500);
    expect(Array.from({ length: 50 }, () => admit()).filter((it) => it.admitted)).toHaveLength(20);
  });
});
