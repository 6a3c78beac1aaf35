import { describe, expect, it } from 'vitest';
import { parseApplications } from '../../manifests/application.ts';

const manifest = (...spec: readonly string[]): string =>
  [
    'apiVersion: setpoint/v1',
    'kind: Application',
    'metadata:',
    '  name: web',
    '  labels: &common',
    '    team: blue',
    '    tier: web',
    'spec:',
    '  project: shop',
    '  server: machine',
    '  source_type: image',
    '  image_url: example/web',
    ...spec.map((line) => `  ${line}`),
  ].join('\n');

describe('the manifest of an application', () => {
  it('merges what it names by <<, of which its own values come first', () => {
    const [one] = parseApplications(manifest('env:', '  <<: *common', '  tier: worker'));
    expect(one?.spec.env).toEqual({ team: 'blue', tier: 'worker' });
    const [list] = parseApplications(manifest('env:', '  <<: [*common, { team: red, more: "1" }]'));
    expect(list?.spec.env).toEqual({ team: 'blue', tier: 'web', more: '1' });
  });

  it('says where a field is that is not known', () => {
    expect(() => parseApplications(manifest('replica: 2'))).toThrow(/line 13, column 12: Unknown field spec\.replica/);
  });

  it('is refused where what it merges is no map', () => {
    expect(() => parseApplications(manifest('env:', '  <<: text'))).toThrow(/[Mm]erge|<</);
  });
});
