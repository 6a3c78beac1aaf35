import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { call } from '../../api.ts';
import type { Data, Operation } from '../../api.ts';
import { useConsole, useHref } from '../../frame/context.ts';
import { useDatabaseParts } from '../../frame/object-links.ts';
import { whyBelow } from '../../frame/rights.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRank } from '../../frame/use-rank.ts';
import { Button } from '../../parts/button.tsx';
import { Card, Facts } from '../../parts/card.tsx';
import { Command } from '../../parts/command.tsx';
import { Copy } from '../../parts/copy.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Notice } from '../../parts/notice.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { connectionStrings } from './connection-strings.ts';
import type { Database } from './tab-props.ts';

type Credentials = Data<Operation<'GET', '/api/v1/databases/{id}/credentials'>>;

const revealedMs = 30_000;

/** How one connects to a database. Its password is read when it is asked for, and hidden again after 30 seconds. */
export function CredentialsCard({ it }: { readonly it: Database }): VNode {
  const { login } = useConsole();
  const rank = useRank(it.project_id);
  const act = useAct();
  const [credentials, setCredentials] = useState<Credentials>();
  useEffect(() => {
    if (credentials === undefined) return undefined;
    const timer = setTimeout(() => setCredentials(undefined), revealedMs);
    return () => clearTimeout(timer);
  }, [credentials]);
  const reveal = (): void =>
    void act.run(async () => {
      setCredentials(await call(login, 'GET', '/api/v1/databases/{id}/credentials', { path: { id: it.id } }));
    });
  return (
    <Card
      title="Connect"
      actions={
        credentials === undefined ? (
          <Button icon="reveal" busy={act.busy} why={whyBelow(rank, 'member')} onClick={reveal}>
            Reveal credentials
          </Button>
        ) : (
          <Button icon="hide" onClick={() => setCredentials(undefined)}>
            Hide credentials
          </Button>
        )
      }
    >
      {act.error !== undefined && <ErrorBox error={act.error} />}
      <Facts
        of={[
          [
            'Inside',
            <span key="inside" class="row">
              <code>{it.internal_id}</code>
              <Copy text={it.internal_id} label="Copy the name inside" />
            </span>,
          ],
          ['User', <code key="user">{it.database_user}</code>],
          ['Database', <code key="database">{it.database_name}</code>],
          [
            'Password',
            credentials === undefined ? (
              <span key="hidden" class="quiet">
                •••••••• hidden; each reading is in the audit log
              </span>
            ) : (
              <span key="shown" class="row">
                <code>{credentials.password}</code>
                <Copy text={credentials.password} label="Copy password" />
              </span>
            ),
          ],
          [
            'For a variable',
            <span key="variable" class="row">
              <code>{`\${databases.${it.name}.url}`}</code>
              <Copy text={`\${databases.${it.name}.url}`} label="Copy reference" />
            </span>,
          ],
          [
            'For a pooled one',
            it.connection_pooling ? (
              <span key="pooled" class="row">
                <code>{`\${databases.${it.name}.pooled_url}`}</code>
                <Copy text={`\${databases.${it.name}.pooled_url}`} label="Copy pooled reference" />
              </span>
            ) : undefined,
          ],
        ]}
      />
      {credentials !== undefined && <Connections it={it} credentials={credentials} />}
    </Card>
  );
}

interface ConnectionsProps {
  readonly it: Database;
  readonly credentials: Credentials;
}

const sideWords = { inside: 'Inside its environment', pooled: 'Inside, pooled', outside: 'Outside' } as const;
type Side = keyof typeof sideWords;

function Connections({ it, credentials }: ConnectionsProps): VNode {
  const [side, setSide] = useState<Side>('inside');
  const [language, setLanguage] = useState<string>();
  const { username, password, database } = credentials;
  const sides: readonly Side[] = it.connection_pooling ? ['inside', 'pooled', 'outside'] : ['inside', 'outside'];
  const at = placeOf[side](credentials);
  const strings = at === undefined ? [] : connectionStrings(it.type, { ...at, username, password, database });
  const shown = strings.find((one) => one.language === language) ?? strings[0];
  return (
    <div class="stack-tight">
      {credentials.password_pending && (
        <Notice shape="busy">
          <p>Another password was asked for. Its engine does not have it yet: this is the former one.</p>
        </Notice>
      )}
      <div class="row-apart">
        <div class="button-group" role="group" aria-label="From where">
          {sides.map((one) => (
            <Button key={one} isSmall pressed={one === side} onClick={() => setSide(one)}>
              {sideWords[one]}
            </Button>
          ))}
        </div>
        <div class="button-group" role="group" aria-label="Language">
          {strings.map((one) => (
            <Button key={one.language} isSmall pressed={one === shown} onClick={() => setLanguage(one.language)}>
              {one.language}
            </Button>
          ))}
        </div>
      </div>
      {shown !== undefined && <Command text={shown.text} label={`Copy for ${shown.language}`} />}
      {side === 'outside' && at === undefined && <NotOutside it={it} />}
      {credentials.ca !== null && (
        <>
          <p>Clients know it by the certificate of the authority of its environment:</p>
          <Command text={credentials.ca.trimEnd()} label="Copy the certificate" />
        </>
      )}
    </div>
  );
}

type Place = { readonly host: string; readonly port: number; readonly url: string };

/** Where it is reached from each side; `undefined`: it is not. */
const placeOf: Readonly<Record<Side, (of: Credentials) => Place | undefined>> = {
  inside: (of) => place(of.internal_host, of.internal_port, of.internal_connection_string),
  pooled: (of) => place(of.pooled_host, of.pooled_port, of.pooled_connection_string),
  outside: (of) => place(of.host, of.port, of.connection_string),
};

function place(host: string | null, port: number | null, url: string | null): Place | undefined {
  return host === null || port === null || url === null ? undefined : { host, port, url };
}

function NotOutside({ it }: { readonly it: Database }): VNode {
  const href = useHref();
  const parts = useDatabaseParts();
  return (
    <div class="stack-tight">
      <p>
        No port leads to it. <a href={href(parts(it, 'settings'))}>Give it one</a>, or have the command lead to it,
        which opens none:
      </p>
      <Command text={`setpoint db connect ${shellQuoted(it.name)}`} />
    </div>
  );
}
