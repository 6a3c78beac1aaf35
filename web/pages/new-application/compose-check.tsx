import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { call } from '../../api.ts';
import type { Data, Operation } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { Notice } from '../../parts/notice.tsx';

type Report = Data<Operation<'POST', '/api/v1/compose/validate'>>;

const askAfterMs = 500;

/** What the server makes of a compose file: what it refuses, with the line, and what means something else here. */
export function ComposeCheck({
  content,
  env,
}: {
  content: string;
  env: Readonly<Record<string, string>>;
}): VNode | null {
  const { login } = useConsole();
  const [report, setReport] = useState<Report>();
  useEffect(() => {
    setReport(undefined);
    if (content.trim() === '') return;
    let isCurrent = true;
    const timer = setTimeout(() => {
      call(login, 'POST', '/api/v1/compose/validate', { body: { content, env } }).then(
        (found) => isCurrent && setReport(found),
        () => undefined, // creating it says what is wrong
      );
    }, askAfterMs);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [content, JSON.stringify(env)]);
  if (report === undefined) return null;
  return (
    <div role="status" class="stack-tight">
      <Notice shape={report.valid ? 'good' : 'bad'}>
        <p>
          {report.valid
            ? `${report.services.length === 1 ? 'One service' : `${report.services.length} services`}: ${report.services.map(({ name }) => name).join(', ')}`
            : 'The file is not taken as it is:'}
        </p>
        <Findings of={report.errors} />
      </Notice>
      {report.warnings.length > 0 && (
        <Notice shape="warn">
          <p>What means something else here:</p>
          <Findings of={report.warnings} />
        </Notice>
      )}
    </div>
  );
}

function Findings({ of }: { of: Report['errors'] }): VNode | null {
  if (of.length === 0) return null;
  return (
    <ul>
      {of.map((one) => (
        <li key={`${one.line} ${one.column} ${one.message}`}>
          Line {one.line}: {one.path !== '' && <code>{one.path}</code>} {one.message}
        </li>
      ))}
    </ul>
  );
}
