import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import type { Data, Operation } from '../../api.ts';
import { useConsole, useHref } from '../../frame/context.ts';
import { labelOfFunctionVerb, whyNotFunctionVerb } from '../../frame/function-verbs.ts';
import { useFunctionParts } from '../../frame/object-links.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRank } from '../../frame/use-rank.ts';
import { Button, IconButton, LinkButton } from '../../parts/button.tsx';
import { Card, Facts } from '../../parts/card.tsx';
import { CodeInput } from '../../parts/code-input.tsx';
import { Copy } from '../../parts/copy.tsx';
import { Field, FieldGroup } from '../../parts/field.tsx';
import { Form } from '../../parts/form.tsx';
import { Select, TextInput } from '../../parts/inputs.tsx';
import { Notice } from '../../parts/notice.tsx';
import { durationText } from '../../parts/relative-time.ts';
import { shellQuoted } from '../../parts/request-text.ts';
import { ShowAs } from '../../parts/show-as.tsx';
import { Status } from '../../parts/status.tsx';
import { bytesText } from '../../parts/units.ts';
import { shownPath } from '../served-fields.ts';
import { countText } from '../template/counts.ts';
import { answerText, byteCount } from './answer-text.ts';
import type { TabProps } from './tab-props.ts';

type Invoked = Data<Operation<'POST', '/api/v1/functions/{id}/invoke'>>;

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'] as const;
/** Beyond the timeout of the function, for an instance that is started first. */
const startMs = 75_000;

/** Calls a function once, and shows what it answered and how long that took. */
export function TryTab({ it }: TabProps): VNode {
  const { login } = useConsole();
  const href = useHref();
  const parts = useFunctionParts();
  const rank = useRank(it.project_id);
  const act = useAct();
  const [method, setMethod] = useState('POST');
  const [path, setPath] = useState('/');
  const [headers, setHeaders] = useState<readonly (readonly [name: string, value: string])[]>([]);
  const [content, setContent] = useState('');
  const [invoked, setInvoked] = useState<Invoked>();
  const why =
    whyNotFunctionVerb('invoke', it, rank) ??
    (path.startsWith('/') ? undefined : 'A path begins with “/”, such as /orders?limit=3');
  const sent = headers.filter(([name]) => name.trim() !== '').map(([name, value]) => [name.trim(), value] as const);
  const body = {
    method,
    path,
    ...(sent.length > 0 && { headers: Object.fromEntries(sent) }),
    ...(content !== '' && { body: content }),
  };
  const invoke = async (): Promise<void> => {
    await act.run(async () => {
      setInvoked(
        await call(login, 'POST', '/api/v1/functions/{id}/invoke', {
          path: { id: it.id },
          body,
          timeoutMs: it.timeout_seconds * 1000 + startMs,
        }),
      );
    });
  };
  const faultOf = (field: string): string | undefined =>
    act.error?.details?.find((one) => one.field === field)?.message;
  return (
    <div class="columns">
      <Card title="Request">
        <Form
          label={`Call ${it.name}`}
          verb={labelOfFunctionVerb('invoke')}
          busy={act.busy}
          why={why}
          error={act.error}
          onSubmit={() => {
            void invoke();
            return true;
          }}
        >
          <Field label="Method" error={faultOf('method')}>
            {(control) => (
              <Select
                control={control}
                options={methods.map((one) => ({ value: one, label: one }))}
                value={method}
                onChange={setMethod}
              />
            )}
          </Field>
          <Field label="Path" help="With its query, such as /orders?limit=3" error={faultOf('path')}>
            {(control) => <TextInput control={control} value={path} onInput={setPath} placeholder="/" isMono />}
          </Field>
          <FieldGroup label="Headers">
            <div class="list-field">
              {headers.map(([name, value], at) => (
                <div key={at} class="input-row">
                  <input
                    class="input mono"
                    aria-label={`Name of header ${at + 1}`}
                    placeholder="content-type"
                    value={name}
                    autocomplete="off"
                    spellcheck={false}
                    onInput={({ currentTarget }) => setHeaders(headers.with(at, [currentTarget.value, value]))}
                  />
                  <input
                    class="input mono"
                    aria-label={`Value of header ${at + 1}`}
                    placeholder="application/json"
                    value={value}
                    autocomplete="off"
                    spellcheck={false}
                    onInput={({ currentTarget }) => setHeaders(headers.with(at, [name, currentTarget.value]))}
                  />
                  <IconButton
                    icon="remove"
                    label={`Remove header ${at + 1}`}
                    onClick={() => setHeaders(headers.filter((_, other) => other !== at))}
                  />
                </div>
              ))}
              <span>
                <Button isSmall icon="plus" onClick={() => setHeaders([...headers, ['', '']])}>
                  Add a header
                </Button>
              </span>
            </div>
          </FieldGroup>
          <Field label="Body" error={faultOf('body')} isOptional>
            {(control) => <CodeInput control={control} value={content} lines={5} onInput={setContent} />}
          </Field>
          <ShowAs
            origin={location.origin}
            request={{ method: 'POST', path: shownPath(login, `/api/v1/functions/${it.id}/invoke`), body }}
            command={[
              `setpoint fn invoke ${shellQuoted(it.name)}`,
              ...(method === 'POST' ? [] : [`--method ${method}`]),
              ...(path === '/' ? [] : [`--path ${shellQuoted(path)}`]),
              ...(content === '' ? [] : [`--data ${shellQuoted(content)}`]),
            ].join(' ')}
          />
        </Form>
      </Card>
      <Card
        title="Answer"
        actions={invoked !== undefined && <LinkButton href={href(parts(it, 'executions'))}>All executions</LinkButton>}
      >
        <div class="stack" role="status">
          {invoked === undefined ? (
            <p class="quiet">What it answers is shown here, with how long it took.</p>
          ) : (
            <Answered of={invoked} />
          )}
        </div>
      </Card>
    </div>
  );
}

function Answered({ of: { execution, answer } }: { readonly of: Invoked }): VNode {
  const text = answer === null ? undefined : answerText(answer);
  const { duration_ms: took, cold_start: wasCold, cold_start_ms: coldMs } = execution;
  return (
    <>
      <Facts
        of={[
          ['Execution', <Status key="status" kind="execution" object={{ ...execution }} />],
          ['Status', answer === null ? undefined : <span class="strong numeric">{answer.status}</span>],
          ['Took', took === null ? undefined : <span class="numeric">{durationText(took)}</span>],
          [
            'Cold start',
            wasCold ? `an instance was started${coldMs === null ? '' : ` in ${durationText(coldMs)}`}` : 'no',
          ],
        ]}
      />
      {execution.error !== null && (
        <Notice shape="bad">
          <p>{execution.error.message}</p>
        </Notice>
      )}
      {answer !== null && (
        <section class="stack-tight" aria-label="Body of the answer">
          <div class="row-apart">
            <h3>Body</h3>
            {text !== undefined && text !== '' && <Copy text={text} label="Copy the body" />}
          </div>
          {text === undefined ? (
            <p>{bytesText(byteCount(answer.body_base64))} that are no text.</p>
          ) : text === '' ? (
            <p class="quiet">It has no body.</p>
          ) : (
            <pre class="output" tabIndex={0}>
              {text}
            </pre>
          )}
          {answer.truncated && <p class="quiet">The body is longer: this is its beginning.</p>}
        </section>
      )}
      {answer !== null && Object.keys(answer.headers).length > 0 && (
        <details class="details">
          <summary>{countText(Object.keys(answer.headers).length, 'header')}</summary>
          <Facts of={Object.entries(answer.headers).map(([name, value]) => [name, <code key={name}>{value}</code>])} />
        </details>
      )}
      {execution.log_preview !== null && execution.log_preview !== '' && (
        <section class="stack-tight" aria-label="What it wrote">
          <h3>What it wrote</h3>
          <pre class="output" tabIndex={0}>
            {execution.log_preview}
          </pre>
        </section>
      )}
    </>
  );
}
