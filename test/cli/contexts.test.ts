import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { chooseContext, credentialsPath, loadConnection, readCredentials, saveContext } from '../../cli/credentials.ts';
import { Answering } from '../harness/answering.ts';
import { CommandLine } from '../harness/command-line.ts';
import { longTag } from '../layer-report.ts';

let cli: CommandLine;
let path: string;

beforeEach(async () => {
  cli = await CommandLine.open();
  path = join(cli.home, '.config', 'setpoint', 'credentials.json');
});
afterEach(() => cli[Symbol.asyncDispose]());

const one = { name: 'one/default', server: 'https://one', tenant: 'default', token: 'a', email: 'a@x.test' };
const two = { name: 'two', server: 'https://two', tenant: 'blue', token: 'b', email: 'b@x.test' };

describe('logins', () => {
  it('are kept beside each other, and the newest is used until another is chosen', async () => {
    await saveContext(one, path);
    await saveContext(two, path);
    expect(await loadConnection({}, path)).toEqual({ server: 'https://two', tenant: 'blue', token: 'b' });
    await chooseContext('one/default', path);
    expect(await loadConnection({}, path)).toEqual({ server: 'https://one', tenant: 'default', token: 'a' });
    expect(await loadConnection({ context: 'two' }, path)).toMatchObject({ token: 'b' });
    await expect(chooseContext('three', path)).rejects.toThrow('There is no context three: one/default, two');
    expect((await stat(path)).mode & 0o777).toBe(0o600);
  });

  it('go only to the server and tenant that they are of', async () => {
    await saveContext(one, path);
    await saveContext(two, path);
    expect(await loadConnection({ server: 'https://one' }, path)).toMatchObject({ token: 'a', tenant: 'default' });
    expect(await loadConnection({ server: 'https://three' }, path)).not.toHaveProperty('token');
    expect(await loadConnection({ tenant: 'green' }, path)).not.toHaveProperty('token');
    expect(await loadConnection({ context: 'two', server: 'https://one' }, path)).not.toHaveProperty('token');
  });

  it('that are named by --context are not mixed with what the environment has of another one', async () => {
    await using production = await Answering.start({});
    await using staging = await Answering.start({ 'GET /api/v1/projects': () => [] });
    await saveContext({ ...two, server: staging.url }, path);
    await saveContext(one, path);
    const env = { SETPOINT_URL: production.url, SETPOINT_TENANT: 'green', SETPOINT_TOKEN: 'sp_production' };
    expect((await cli.run(['get', 'projects', '--context', 'two'], '', env)).code).toBe(0);
    expect(production.requests).toEqual([]);
    expect(staging.requests).toMatchObject([{ headers: { authorization: 'Bearer b' } }]);
  });

  it('of an earlier release go on', async () => {
    await saveContext(one, path);
    await cli.file(
      '.config/setpoint/credentials.json',
      JSON.stringify({ server: one.server, tenant: 'default', token: 'a' }),
    );
    expect(await loadConnection({}, path)).toEqual({ server: 'https://one', tenant: 'default', token: 'a' });
    await saveContext(two, path);
    expect((await readCredentials(path)).contexts.map(({ name }) => name)).toEqual(['one/default', 'two']);
  });

  it('that are damaged are said to be so, with what to do', async () => {
    await saveContext(one, path);
    await cli.file('.config/setpoint/credentials.json', '{');
    await expect(loadConnection({}, path)).rejects.toThrow('is damaged: remove it, and log in again');
  });

  it('lie where the machine keeps settings', () => {
    expect(credentialsPath('/elsewhere')).toBe('/elsewhere/setpoint/credentials.json');
    expect(credentialsPath('relative')).toMatch(/\.config\/setpoint\/credentials\.json$/);
  });

  it('are listed and chosen on the command line, by XDG_CONFIG_HOME too', async () => {
    const home = join(cli.home, 'settings');
    await saveContext(one, credentialsPath(home));
    await saveContext(two, credentialsPath(home));
    const env = { XDG_CONFIG_HOME: home };
    const listed = await cli.run(['context', 'list'], '', env);
    expect(listed.out).toMatch(
      /^CURRENT +NAME +SERVER +TENANT +ACCOUNT\n +one\/default .*\n\* +two +https:\/\/two +blue/,
    );
    const used = await cli.run(['context', 'use', 'one/default'], '', { ...env, SETPOINT_URL: 'https://two' });
    expect(used.out).toContain('https://one (default)');
    expect(used.err).toMatch(/^Warning: the environment comes first: unset SETPOINT_URL, or /);
    expect(JSON.parse(await readFile(credentialsPath(home), 'utf8'))).toMatchObject({ current: 'one/default' });
    expect((await cli.run(['context', 'list'])).out.trim()).toMatch(/^CURRENT.*ACCOUNT$/);
  });
});

describe('the environment', () => {
  it('sets nothing by a variable that is empty', async () => {
    const { err } = await cli.run(['get', 'projects'], '', { SETPOINT_URL: '', SETPOINT_TOKEN: '' });
    expect(err).toContain('No server is known');
  });

  it('has the join token of an agent apart from the token of the other commands', { tags: [longTag] }, async () => {
    const agent = (env: Record<string, string>) =>
      cli.run(
        ['agent', '--server', 'http://127.0.0.1:1/default', '--data', join(cli.home, 'agent'), '--runtime', 'mock'],
        '',
        env,
      );
    expect((await agent({ SETPOINT_TOKEN: 'ey.a.session' })).err).toContain('make a join token');
    expect((await agent({ SETPOINT_TOKEN: 'ey.a.session' })).err).not.toContain('must have the form');
    expect((await agent({ SETPOINT_JOIN_TOKEN: 'nonsense' })).err).toContain('must have the form');
    expect((await agent({ SETPOINT_TOKEN: 'sj_nonsense' })).err).toContain('must have the form');
  });
});

describe('completion', () => {
  it.each(['bash', 'zsh'])('of %s knows commands, kinds and options', async (shell) => {
    const { out, code } = await cli.run(['completion', shell]);
    expect(code).toBe(0);
    expect(out).toContain('complete -F _setpoint setpoint');
    expect(out).toMatch(/'setpoint get'\) words='.*--output.* applications /);
    expect(out).toMatch(/'setpoint context'\) words='list use/);
  });

  it('of bash is a script that bash takes', async () => {
    const { out } = await cli.run(['completion', 'bash']);
    const script = await cli.file(
      'completion.bash',
      `${out}\nCOMP_WORDS=(setpoint context u); COMP_CWORD=2; _setpoint; echo "$COMPREPLY"\n`,
    );
    expect((await cli.runProgram('bash', [script])).out).toBe('use\n');
  });

  it('of fish knows commands and options, and of others nothing', async () => {
    const { out } = await cli.run(['completion', 'fish']);
    expect(out).toMatch(/^complete -c setpoint -f -n '.*' -a deploy -d 'deploy an application/m);
    expect((await cli.run(['completion', 'tcsh'])).err).toBe('Cannot complete for tcsh: bash, zsh or fish\n');
  });
});
