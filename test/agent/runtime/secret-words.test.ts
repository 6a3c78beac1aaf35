import { describe, expect, it } from 'vitest';
import { withheld } from '../../../agent-protocol/survey.ts';
import { withoutSecrets } from '../../../agent/runtime/secret-words.ts';

describe('the words of a command', () => {
  it.each<[words: string[], shown: string[]]>([
    [
      ['redis-server', '--requirepass', 'hunter2', '--appendonly', 'yes'],
      ['redis-server', '--requirepass', withheld, '--appendonly', 'yes'],
    ],
    [
      ['serve', '--api-key=hunter2', '--port=80'],
      ['serve', `--api-key=${withheld}`, '--port=80'],
    ],
    [
      ['sh', '-c', 'PGPASSWORD=hunter2 psql -c x && echo "done"'],
      ['sh', '-c', `PGPASSWORD=${withheld} psql -c x && echo "done"`],
    ],
    [
      ['sh', '-c', `exec app --client-secret 'hunter 2' --verbose`],
      ['sh', '-c', `exec app --client-secret ${withheld} --verbose`],
    ],
    [
      ['app', '--db', 'postgres://shop:hunter2@db:5432/shop?x=1'],
      ['app', '--db', `postgres://shop:${withheld}@db:5432/shop?x=1`],
    ],
    [
      ['mysql', '-uroot', '-phunter2'],
      ['mysql', '-uroot', `-p${withheld}`],
    ],
    [
      ['curl', '-u', 'shop:hunter2', 'https://x/'],
      ['curl', '-u', `shop:${withheld}`, 'https://x/'],
    ],
    [
      ['redis-cli', '-a', 'hunter2', 'ping'],
      ['redis-cli', '-a', withheld, 'ping'],
    ],
    [
      ['curl', '-H', 'Authorization: Bearer hunter2'],
      ['curl', '-H', `Authorization: Bearer ${withheld}`],
    ],
    [
      ['sh', '-c', `curl -H "Authorization: Basic aHVudGVyMg==" x`],
      ['sh', '-c', `curl -H "Authorization: Basic ${withheld}" x`],
    ],
    [
      ['app', '--auth=hunter2', '--key', 'hunter2'],
      ['app', `--auth=${withheld}`, '--key', withheld],
    ],
    [
      ['app', '--set', 'db.auth.password=hunter2'],
      ['app', '--set', `db.auth.password=${withheld}`],
    ],
    [
      ['app', '{"password":"hunter2","port":80}', '--config={"db":{"api_key":"hunter2"}}'],
      ['app', `{"password":${withheld},"port":80}`, `--config={"db":{"api_key":${withheld}}}`],
    ],
    [
      ['docker', 'run', '--env=DB_PASS=hunter2'],
      ['docker', 'run', `--env=DB_PASS=${withheld}`],
    ],
    [
      ['sh', '-c', `app --password="hunter 2" run`],
      ['sh', '-c', `app --password=${withheld} run`],
    ],
    [
      ['sh', '-c', 'exec app --authToken hunter2;run'],
      ['sh', '-c', `exec app --authToken ${withheld};run`],
    ],
    [
      ['app', 'postgres://shop:p@ss/hunter2@db/shop'],
      ['app', `postgres://shop:${withheld}@db/shop`],
    ],
    [
      ['git', 'clone', 'https://hunter2@git.example/x'],
      ['git', 'clone', `https://${withheld}@git.example/x`],
    ],
    [
      ['app', '--url=https://hunter2@git.example/x'],
      ['app', `--url=https://${withheld}@git.example/x`],
    ],
  ])('are told without what looks like a secret: %j', (words, shown) => {
    expect(withoutSecrets(words)).toEqual(shown);
  });

  it.each([
    [['sh', '-c', 'redis-server --requirepass "$REDIS_PASSWORD"']],
    [['redis-server', '--requirepass', '$REDIS_PASSWORD']],
    [['app', '--db', 'postgres://shop:${PASSWORD}@db/shop']],
    [['app', '--ask-password', '--verbose']],
    [['node', 'server.js', '--port', '8080']],
    [['app', '--password-file', '/run/secrets/db']],
    [['monkey', 'key.js', '--keyboard', 'de', 'postgres://app@db:5432/shop', 'http://host:8080/a@b']],
    [['ssh', '-p', '2222', '-u', 'app:x']],
    [['sh', '-c', 'wget -qO- http://x | tee /tmp/y && echo "a b" \'c']],
  ])('are told as they are where nothing is a secret: %j', (words) => {
    expect(withoutSecrets(words)).toEqual(words);
  });

  it('are read in a time that grows with their length, whatever is in them', () => {
    const hard = ['pass', '"', "'", '=', '://', 'a@', ' ', '-p', ':', `"'`];
    for (const one of hard) {
      const word = one.repeat(Math.ceil(200_000 / one.length));
      expect(withoutSecrets(['mysql', word])).toHaveLength(2);
    }
  });
});
