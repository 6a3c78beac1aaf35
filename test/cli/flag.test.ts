import { Command } from 'commander';
import { afterEach, expect, it } from 'vitest';
import { flag } from '../../cli/flag.ts';

const variables = ['SETPOINT_GIT_LOOPBACK', 'SETPOINT_NO_SERVER_TERMINALS', 'SETPOINT_LOG_LEVEL'];
afterEach(() => variables.forEach((name) => Reflect.deleteProperty(process.env, name)));

function parsed(environment: Record<string, string>, ...args: string[]): unknown {
  Object.assign(process.env, environment);
  const silent = { writeErr: () => undefined };
  const command = new Command('agent')
    .exitOverride()
    .configureOutput(silent)
    .action(() => undefined);
  command.addOption(flag('--git-loopback', 'a flag'));
  command.addOption(flag('--no-server-terminals', 'a flag'));
  command.addOption(flag('--log-level <level>', 'a value'));
  return command.parse(args, { from: 'user' }).opts();
}

it.each(['true', 'yes', '1', 'On'])('a variable of a flag that says %s sets it', (value) => {
  expect(parsed({ SETPOINT_GIT_LOOPBACK: value })).toEqual({ gitLoopback: true, serverTerminals: true });
  expect(parsed({ SETPOINT_NO_SERVER_TERMINALS: value })).toMatchObject({ serverTerminals: false });
});

it.each(['false', 'no', '0', 'OFF'])('one that says %s does not', (value) => {
  const environment = { SETPOINT_GIT_LOOPBACK: value, SETPOINT_NO_SERVER_TERMINALS: value, SETPOINT_LOG_LEVEL: value };
  expect(parsed(environment)).toEqual({ serverTerminals: true, logLevel: value });
  expect(parsed(environment, '--git-loopback')).toMatchObject({ gitLoopback: true });
});

it('any other text is refused, and the variable is named', () => {
  expect(() => parsed({ SETPOINT_GIT_LOOPBACK: 'nonsense' })).toThrow(/SETPOINT_GIT_LOOPBACK must be true or false/);
});
