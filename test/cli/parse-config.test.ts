import { expect, test } from 'vitest';
import { AgentConfig } from '../../cli/agent-config.ts';
import { parseConfig } from '../../cli/parse-config.ts';

test('a wrong setting is named by its flag, every one of them', () => {
  expect(() => parseConfig(AgentConfig, { logLevel: 'loud' })).toThrow(
    /^The settings are wrong:\n {2}--server: is needed\n {2}--log-level: .*"info".*$/,
  );
});
