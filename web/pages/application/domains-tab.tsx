import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { whyNotVerb } from '../../frame/application-verbs.ts';
import { useConsole } from '../../frame/context.ts';
import { useRank } from '../../frame/use-rank.ts';
import { useAct } from '../../frame/use-act.ts';
import type { Application } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { Card } from '../../parts/card.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Field, FieldGroup } from '../../parts/field.tsx';
import { Radios } from '../../parts/inputs.tsx';
import { Menu } from '../../parts/menu.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { Table } from '../../parts/table.tsx';
import type { TabProps } from './tab-props.ts';

type Domain = Application['domains'][number];

/** The names that lead to an application. A change of them needs no deployment. */
export function DomainsTab({ it }: TabProps): VNode {
  const rank = useRank(it.project_id);
  const why = whyNotVerb('update', it, rank);
  const [isNew, setNew] = useState(false);
  const [going, setGoing] = useState<Domain>();
  const add = (
    <Button tone="primary" icon="plus" why={why} onClick={() => setNew(true)}>
      Add a domain
    </Button>
  );
  return (
    <Card title="Domains" actions={it.domains.length > 0 && add}>
      <Table
        label="Domains"
        rows={it.domains}
        keyOf={keyOf}
        empty={
          <EmptyState
            title="No domain"
            action={add}
            command={`setpoint domains add ${shellQuoted(it.name)} shop.example.com`}
          >
            A domain leads requests to the application, and gets a certificate by itself once its name points to the
            server.
            {it.exposed_port === null && ' The application needs a port first: see its settings.'}
          </EmptyState>
        }
        columns={[
          {
            id: 'host',
            title: 'Address',
            isPrimary: true,
            cell: (one) => (
              <a href={urlOf(one)} target="_blank" rel="noreferrer">
                {one.host}
                {one.path === '/' ? '' : one.path}
              </a>
            ),
          },
          { id: 'tls', title: 'TLS', cell: ({ tls }) => tlsWords[tls] },
          {
            id: 'to',
            title: 'Leads to',
            cell: (one) =>
              one.redirect_to ??
              [one.service, one.port === null ? null : `port ${one.port}`].filter(Boolean).join(', '),
          },
          {
            id: 'auth',
            title: 'Asks for',
            cell: ({ basic_auth: users }) =>
              users.length === 0 ? '' : users.map(({ username }) => username).join(', '),
          },
          {
            id: 'more',
            title: 'More',
            isNarrow: true,
            cell: (one) => (
              <Menu
                label={`Actions of ${one.host}`}
                icon="more"
                tone="plain"
                entries={[{ label: 'Remove', why, isDanger: true, onSelect: () => setGoing(one) }]}
              />
            ),
          },
        ]}
      />
      {isNew && <NewDomain it={it} onClose={() => setNew(false)} />}
      {going !== undefined && <RemoveDomain it={it} domain={going} onClose={() => setGoing(undefined)} />}
    </Card>
  );
}

const tlsWords: Readonly<Record<Domain['tls'], string>> = {
  on: 'by the public authority',
  internal: 'by the authority of the server',
  off: 'none',
};

const keyOf = ({ host, path }: Domain): string => `${host}${path}`;

function urlOf({ host, path, tls }: Domain): string {
  return `${tls === 'off' ? 'http' : 'https'}://${host}${path}`;
}

/** Stores the domains; passwords of those that stay are kept, as they are not sent. */
function useStore(it: Application): (domains: Parameters<typeof bodyOf>[0]) => Promise<unknown> {
  const { login, store } = useConsole();
  return (domains) =>
    store.answer('application', () =>
      call(login, 'PUT', '/api/v1/applications/{id}', {
        path: { id: it.id },
        body: bodyOf(domains),
        ifMatch: it.resource_version,
      }),
    );
}

function bodyOf(domains: readonly (Domain | Pick<Domain, 'host' | 'path' | 'tls'>)[]) {
  return { domains: [...domains] };
}

function NewDomain({ it, onClose }: { it: Application; onClose: () => void }): VNode {
  const act = useAct();
  const store = useStore(it);
  const [host, setHost] = useState('');
  const [path, setPath] = useState('/');
  const [tls, setTls] = useState<Domain['tls']>('on');
  const wrong = act.error?.details?.find(({ field }) => field.startsWith('domains'))?.message;
  const save = async (): Promise<void> => {
    const isDone = await act.run(() => store([...it.domains, { host: host.trim(), path: path.trim() || '/', tls }]));
    if (isDone) onClose();
  };
  return (
    <Dialog
      title="Add a domain"
      onClose={onClose}
      dirty={host !== ''}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            tone="primary"
            type="submit"
            form="new-domain"
            busy={act.busy}
            why={host.trim() === '' ? 'Enter a host first' : undefined}
          >
            Add
          </Button>
        </>
      }
    >
      {act.error !== undefined && wrong === undefined && <ErrorBox error={act.error} />}
      <form
        id="new-domain"
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          if (host.trim() !== '') void save();
        }}
      >
        <Field label="Host" error={wrong} help="Its name must point to the server of the application">
          {(field) => (
            <input
              {...field}
              class="input"
              placeholder="shop.example.com"
              value={host}
              autofocus
              autocomplete="off"
              spellcheck={false}
              onInput={({ currentTarget }) => setHost(currentTarget.value)}
            />
          )}
        </Field>
        <Field label="Path" help="Requests below it come here">
          {(field) => (
            <input
              {...field}
              class="input"
              value={path}
              autocomplete="off"
              spellcheck={false}
              onInput={({ currentTarget }) => setPath(currentTarget.value)}
            />
          )}
        </Field>
        <FieldGroup label="Certificate">
          <Radios
            name="tls"
            options={Object.entries(tlsWords).map(([value, label]) => ({ value, label }))}
            value={tls}
            onChange={(value) => setTls(value as Domain['tls'])} // a key of the table
          />
        </FieldGroup>
      </form>
    </Dialog>
  );
}

function RemoveDomain({ it, domain, onClose }: { it: Application; domain: Domain; onClose: () => void }): VNode {
  const act = useAct();
  const store = useStore(it);
  const remove = async (): Promise<void> => {
    const isDone = await act.run(() => store(it.domains.filter((one) => keyOf(one) !== keyOf(domain))));
    if (isDone) onClose();
  };
  return (
    <Confirm
      title={`Remove ${domain.host}`}
      verb="Remove domain"
      goes={[`Requests to ${keyOf(domain)} do not reach ${it.name} any more`]}
      stays={[`The application ${it.name}`, 'The name itself, which the owner of the domain has']}
      busy={act.busy}
      error={act.error}
      onConfirm={() => void remove()}
      onClose={onClose}
    />
  );
}
