import { describe, expect, it } from 'vitest';
import { Admission } from '../../../controllers/gateway/admission.ts';
import { limits } from '../../../controllers/gateway/limits.ts';
import { pace } from '../../../controllers/gateway/pace.ts';
import { FakeClock } from '../../harness/fake-clock.ts';

describe('a pace', () => {
  it('takes a second worth of agents at once, and sends each of the others to a later place', () => {
    const admit = pace(new FakeClock(), 40);
    const answers = Array.from({ length: 100 }, () => admit());
    expect(answers.filter((it) => it.admitted)).toHaveLength(40);
    const waits = answers.flatMap((it) => (it.admitted ? [] : [it.retryAfterMs]));
    expect(waits).toEqual(Array.from({ length: 60 }, (_, place) => 50 + 25 * place));
  });

  it('takes as many per second as it may, however long it was quiet', async () => {
    const clock = new FakeClock();
    const admit = pace(clock, 40);
    await clock.advance(60_000);
    expect(Array.from({ length: 50 }, () => admit()).filter((it) => it.admitted)).toHaveLength(40);
    await clock.advance(500);
    expect(Array.from({ length: 50 }, () => admit()).filter((it) => it.admitted)).toHaveLength(20);
  });
});

describe('admission', () => {
  const { known, strangers } = limits.admission;
  const stranger = (n: number) => ({ address: `192.0.2.${n}`, server: undefined });
  const agent = (n: number) => ({ address: '192.0.2.0', server: `acme/${n}` });

  it('gives no address all the places of strangers, and strangers none of those of agents', () => {
    const admission = new Admission(new FakeClock());
    const places = [];
    while (admission.hasRoom(stranger(0))) places.push(admission.take(stranger(0)));
    expect(places).toHaveLength(strangers.placesEach);
    expect(admission.hasRoom(stranger(1))).toBe(true);
    for (let n = 1; n < 100; n++) while (admission.hasRoom(stranger(n))) places.push(admission.take(stranger(n)));
    expect(places).toHaveLength(strangers.places);
    expect([admission.hasRoom(stranger(200)), admission.hasRoom(agent(1))]).toEqual([false, true]);
    places[0]!.free();
    expect([admission.hasRoom(stranger(200)), admission.hasRoom(stranger(0))]).toEqual([true, true]);
  });

  it('gives no server all the places of agents', () => {
    const admission = new Admission(new FakeClock());
    for (let n = 0; n < known.placesEach; n++) admission.take(agent(1));
    expect([admission.hasRoom(agent(1)), admission.hasRoom(agent(2))]).toEqual([false, true]);
  });

  it('paces the handshakes of each address, and those of strangers apart from those of agents', () => {
    const admission = new Admission(new FakeClock());
    const begun = (sender: Parameters<Admission['take']>[0]): number =>
      Array.from({ length: 100 }, () => admission.take(sender).begin()).filter((it) => it.admitted).length;
    expect([begun(stranger(1)), begun(stranger(2)), begun(stranger(3))]).toEqual([20, 20, 0]);
    expect([begun(agent(1)), begun(agent(2))]).toEqual([known.perSecondEach, known.perSecondEach]);
  });
});
