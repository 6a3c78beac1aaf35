import { expect, test } from 'vitest';
import { AgentConfig } from '../../cli/agent-config.ts';
import { parseConfig } from '../../cli/parse-config.ts';
import { ServerConfig } from '../../cli/server-config.ts';

test('a wrong setting is named by its flag, every one of them', () => {
  expect(() => parseConfig(AgentConfig, { logLevel: 'loud' })).toThrow(
    /^The settings are wrong:\n {2}--server: is required\n {2}--log-level: must be one of .*info.*$/,
  );
});

test('plain http is taken within this machine alone, unless it is allowed', () => {
  const config = (server: string, rest: object = {}) => parseConfig(AgentConfig, { server, ...rest });
  for (const server of [
    'https://setpoint.example.com/default',
    'http://127.0.0.1:7070/default,http://127.0.0.2/default',
    'http://localhost:7070/default',
    'http://[::1]:7070/default',
  ])
    expect(config(server).server).toEqual(server.split(','));
  for (const server of [
    'http://setpoint.example.com/default',
    'https://a.example.com/default,http://b.example.com/default',
    'http://10.0.0.1/default',
    'http://127.0.0.1.example.com/default',
    'http://localhost.example.com/default',
  ]) {
    expect(() => config(server)).toThrow(/--server: must be https.*--allow-plain-http/);
    expect(config(server, { allowPlainHttp: 'true' }).server).toEqual(server.split(','));
  }
});

test('addresses below the public URL have one slash, however the URL was written', () => {
  for (const publicUrl of ['https://setpoint.example.com', 'https://setpoint.example.com/'])
    expect(parseConfig(ServerConfig, { publicUrl }).publicUrl).toBe('https://setpoint.example.com');
});
