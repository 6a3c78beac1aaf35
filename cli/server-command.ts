import { Command } from 'commander';
import { flag } from './flag.ts';
import { stopSignal } from './stop-signal.ts';

/** The command that runs the control plane. */
export function serverCommand(): Command {
  return new Command('server')
    .description('run the control plane')
    .addOption(flag('--listen <host:port>', 'address of API, streams and agents (127.0.0.1:7070)'))
    .addOption(flag('--store <url>', 'sqlite:PATH or etcd://HOST:PORT,HOST:PORT (embedded, in the data directory)'))
    .addOption(flag('--etcd-ca <file>', 'certificate of the authority that etcd is to be certified by, in PEM: TLS'))
    .addOption(flag('--etcd-cert <file>', 'certificate by which this replica proves itself to etcd, in PEM'))
    .addOption(flag('--etcd-key <file>', 'key of that certificate'))
    .addOption(flag('--etcd-user <name>', 'user of etcd'))
    .addOption(flag('--etcd-password-file <file>', 'file that holds the password of that user'))
    .addOption(
      flag('--etcd-quota-bytes <bytes>', "as etcd has it by --quota-backend-bytes; default: etcd's own, 2 GiB"),
    )
    .addOption(flag('--data <dir>', 'keys and the embedded store (/var/lib/setpoint/server)'))
    .addOption(flag('--public-url <url>', 'address under which users and agents reach this installation'))
    .addOption(flag('--allow-plain-http', 'agents on other machines may reach that address by http'))
    .addOption(flag('--internal-url <url>', 'address under which the other replicas reach this one'))
    .addOption(
      flag('--allowed-hosts <list>', 'names that are answered beside that of the public address; * for all of them'),
    )
    .addOption(flag('--metrics-from <list>', 'addresses or CIDR ranges that may read /metrics (this machine)'))
    .addOption(flag('--ssh-networks <list>', 'ranges of this machine itself to which SSH may log in (none)'))
    .addOption(flag('--trusted-proxies <list>', 'addresses or CIDR ranges whose X-Forwarded-For is believed'))
    .addOption(flag('--agent-release <dir>', 'release of the agent that servers get from here (dist, by make release)'))
    .addOption(
      flag('--smtp-url <url>', 'mail server: smtp://[USER:PASSWORD@]HOST[:PORT], or smtps://… (mail is only logged)'),
    )
    .addOption(flag('--mail-from <address>', 'sender of mail'))
    .addOption(
      flag(
        '--setup-token <token>',
        'what the first user of a tenant must present: auto, off, or a text of your own (auto)',
      ),
    )
    .addOption(flag('--signing-key-days <n>', 'days after which another key signs tokens (90)'))
    .addOption(
      flag(
        '--ingress-image <image>',
        'image of Caddy for the proxies of servers (docker.io/library/caddy:2.11-alpine)',
      ),
    )
    .addOption(
      flag(
        '--pooler-image <image>',
        'image with pgbouncer and psql for pooled databases (edoburu/pgbouncer:v1.24.1-p1)',
      ),
    )
    .addOption(
      flag(
        '--engine-images <list>',
        'images in place of the official ones: TYPE=IMAGE with commas between, {version} in it is that of the database',
      ),
    )
    .addOption(
      flag(
        '--runtime-images <list>',
        'images that functions are built upon, in place of the official ones: RUNTIME=IMAGE with commas between',
      ),
    )
    .addOption(flag('--wildcard-domain <domain>', 'a domain below which each server with an ingress gets one (none)'))
    .addOption(flag('--build-deadline-seconds <n>', 'longest build (1800)'))
    .addOption(flag('--rollout-deadline-seconds <n>', 'longest time in which a rollout makes no progress (600)'))
    .addOption(flag('--audit-retention-days <n>', 'age up to which audit records are kept (90)'))
    .addOption(
      flag('--rate-limit <n,burst>', 'requests of one caller in a minute and at once; 0: no limit (6000,1000)'),
    )
    .addOption(flag('--heavy-rate-limit <n,burst>', 'the same of requests that cost much (300,100)'))
    .addOption(flag('--code-rate-limit <n,burst>', 'the same of codes to log in, by address (1,30)'))
    .addOption(flag('--streams-per-user <n>', 'streams that one user may have open; 0: no limit (200)'))
    .addOption(flag('--log-level <level>', 'fatal, error, warn, info, debug or trace (info)'))
    .action(async (options: unknown) => (await import('./server.ts')).runServer(options, stopSignal()));
}
