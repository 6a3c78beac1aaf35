import type { VNode } from 'preact';
import { labelOf, simpleVerbs, useVerb, whyNotVerb } from '../../frame/application-verbs.ts';
import { useHref } from '../../frame/context.ts';
import {
  labelOfDatabaseVerb,
  simpleDatabaseVerbs,
  useDatabaseVerb,
  whyNotDatabaseVerb,
} from '../../frame/database-verbs.ts';
import {
  labelOfFunctionVerb,
  simpleFunctionVerbs,
  useFunctionVerb,
  whyNotFunctionVerb,
} from '../../frame/function-verbs.ts';
import { useApplicationParts, useDatabaseParts, useFunctionParts } from '../../frame/object-links.ts';
import { useRank } from '../../frame/use-rank.ts';
import { waitsFor } from '../../frame/waits-for.ts';
import type { Application, ObjectOf } from '../../model.ts';
import { Icon } from '../../parts/icon.tsx';
import { Menu } from '../../parts/menu.tsx';
import { Status } from '../../parts/status.tsx';
import { Time } from '../../parts/time.tsx';
import { engineName } from '../database/engine-name.ts';
import { runtimes } from '../function/runtimes.ts';

/** An application in its environment: how it is, what it waits for, where it is reached. */
export function ApplicationCard({ it }: { it: Application }): VNode {
  const href = useHref();
  const parts = useApplicationParts();
  const rank = useRank(it.project_id);
  const doVerb = useVerb();
  const cause = waitsFor(it);
  const [url] = it.urls;
  return (
    <div class="workload">
      <div class="workload-head">
        <Status kind="application" object={it} />
        <a class="workload-name" href={href(parts(it))}>
          {it.name}
        </a>
        <Menu
          label={`Actions of ${it.name}`}
          icon="more"
          tone="plain"
          entries={[
            ...simpleVerbs.map((verb) => ({
              label: labelOf(verb),
              why: whyNotVerb(verb, it, rank),
              onSelect: () => void doVerb(verb, it),
            })),
            'line' as const,
            { label: 'Logs', href: href(parts(it, 'logs')) },
            { label: 'Environment', href: href(parts(it, 'environment')) },
          ]}
        />
      </div>
      {cause !== '' && <p class="workload-cause">{cause}</p>}
      <p class="workload-facts">
        {url !== undefined && (
          <a class="row" href={url} target="_blank" rel="noreferrer">
            {new URL(url).host} <Icon name="external" />
          </a>
        )}
        <span>
          {it.ready_replicas} of {it.replicas} ready
        </span>
        <span>
          changed <Time at={it.updated_at} />
        </span>
      </p>
    </div>
  );
}

/** A database in its environment: how it is, what it waits for, what it is run of. */
export function DatabaseCard({ it }: { it: ObjectOf<'database'> }): VNode {
  const href = useHref();
  const parts = useDatabaseParts();
  const rank = useRank(it.project_id);
  const doVerb = useDatabaseVerb();
  const cause = waitsFor(it);
  return (
    <div class="workload">
      <div class="workload-head">
        <Status kind="database" object={it} />
        <a class="workload-name" href={href(parts(it))}>
          {it.name}
        </a>
        <Menu
          label={`Actions of ${it.name}`}
          icon="more"
          tone="plain"
          entries={[
            ...simpleDatabaseVerbs.map((verb) => ({
              label: labelOfDatabaseVerb(verb),
              why: whyNotDatabaseVerb(verb, it, rank),
              onSelect: () => void doVerb(verb, it),
            })),
            'line' as const,
            { label: 'Backups', href: href(parts(it, 'backups')) },
            { label: 'Logs', href: href(parts(it, 'logs')) },
          ]}
        />
      </div>
      {cause !== '' && <p class="workload-cause">{cause}</p>}
      <p class="workload-facts">
        <span>
          {engineName(it.type)} {it.version}
        </span>
        <span>
          changed <Time at={it.updated_at} />
        </span>
      </p>
    </div>
  );
}

/** A function in its environment: how it is, what calls it, what it waits for. */
export function FunctionCard({ it }: { it: ObjectOf<'function'> }): VNode {
  const href = useHref();
  const parts = useFunctionParts();
  const rank = useRank(it.project_id);
  const doVerb = useFunctionVerb();
  const cause = waitsFor(it);
  return (
    <div class="workload">
      <div class="workload-head">
        <Status kind="function" object={it} />
        <a class="workload-name" href={href(parts(it))}>
          {it.name}
        </a>
        <Menu
          label={`Actions of ${it.name}`}
          icon="more"
          tone="plain"
          entries={[
            ...simpleFunctionVerbs.map((verb) => ({
              label: labelOfFunctionVerb(verb),
              why: whyNotFunctionVerb(verb, it, rank),
              onSelect: () => void doVerb(verb, it),
            })),
            'line' as const,
            { label: 'Code', href: href(parts(it, 'code')) },
            { label: 'Try it', href: href(parts(it, 'try')) },
            { label: 'Logs', href: href(parts(it, 'logs')) },
          ]}
        />
      </div>
      {cause !== '' && <p class="workload-cause">{cause}</p>}
      <p class="workload-facts">
        {it.url !== null && (
          <a class="row" href={it.url} target="_blank" rel="noreferrer">
            {new URL(it.url).host} <Icon name="external" />
          </a>
        )}
        <span>Function of {runtimes[it.runtime].label}</span>
        {it.next_run_at !== null && (
          <span>
            next <Time at={it.next_run_at} />
          </span>
        )}
        <span>
          changed <Time at={it.updated_at} />
        </span>
      </p>
    </div>
  );
}

export function VolumeCard({ it }: { it: ObjectOf<'volume'> }): VNode {
  return (
    <div class="workload">
      <div class="workload-head">
        <Status kind="volume" object={it} />
        <span class="workload-name">{it.name}</span>
      </div>
      <p class="workload-facts">
        <span>Volume</span>
        {it.bindings.length > 0 && <span>mounted by {it.bindings.length}</span>}
        {it.expires_at !== null && (
          <span>
            deleted <Time at={it.expires_at} />
          </span>
        )}
      </p>
    </div>
  );
}
