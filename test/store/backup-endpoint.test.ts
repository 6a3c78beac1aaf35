import { expect, test } from 'vitest';
import { endpointOf } from '../../store/backup-endpoint.ts';

const account_id = '0123456789abcdef0123456789abcdef';

test.each([
  [{ provider: 's3', region: 'eu-central-1' }, 'https://s3.eu-central-1.amazonaws.com', 'eu-central-1', false],
  [{ provider: 's3', region: 'cn-north-1' }, 'https://s3.cn-north-1.amazonaws.com.cn', 'cn-north-1', false],
  [
    { provider: 's3', region: 'eu-west-1', endpoint: 'https://vpce.example.com' },
    'https://vpce.example.com',
    'eu-west-1',
    false,
  ],
  [{ provider: 'b2', region: 'eu-central-003' }, 'https://s3.eu-central-003.backblazeb2.com', 'eu-central-003', false],
  [{ provider: 'wasabi', region: 'eu-west-2' }, 'https://s3.eu-west-2.wasabisys.com', 'eu-west-2', false],
  [{ provider: 'r2', account_id }, `https://${account_id}.r2.cloudflarestorage.com`, 'auto', true],
  [
    { provider: 'r2', account_id, endpoint: `https://${account_id}.r2.cloudflarestorage.com/` },
    `https://${account_id}.r2.cloudflarestorage.com`,
    'auto',
    true,
  ],
  [
    { provider: 'r2', endpoint: `https://${account_id}.eu.r2.cloudflarestorage.com` },
    `https://${account_id}.eu.r2.cloudflarestorage.com`,
    'auto',
    true,
  ],
  [
    { provider: 'r2', account_id, jurisdiction: 'eu' },
    `https://${account_id}.eu.r2.cloudflarestorage.com`,
    'auto',
    true,
  ],
  [{ provider: 'minio', endpoint: 'http://10.0.0.7:9000' }, 'http://10.0.0.7:9000', 'us-east-1', true],
  [
    { provider: 'custom', endpoint: 'https://s3.example.com', path_style: false },
    'https://s3.example.com',
    'us-east-1',
    false,
  ],
] as const)('%j is asked at %s', (fields, endpoint, region, pathStyle) => {
  expect(endpointOf(fields)).toEqual({ endpoint, region, pathStyle });
});

test.each([
  [{ provider: 's3' }, 'region'],
  [{ provider: 's3', region: 'EU' }, 'region'],
  [{ provider: 'b2', region: 'x.evil.example' }, 'region'],
  [{ provider: 'minio' }, 'endpoint'],
  [{ provider: 'r2' }, 'account_id'],
  [{ provider: 'r2', account_id, endpoint: 'https://s3.example.com' }, 'endpoint'],
  [{ provider: 'r2', account_id, region: 'eu-west-1' }, 'region'],
  [{ provider: 'custom', endpoint: 'https://s3.example.com', jurisdiction: 'eu' }, 'jurisdiction'],
] as const)('%j is refused for its %s', (fields, field) => {
  expect(endpointOf(fields)).toMatchObject({ field });
});
