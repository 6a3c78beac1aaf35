import type { VNode } from 'preact';
import { useMemo, useRef, useState } from 'preact/hooks';
import { Button } from '../../parts/button.tsx';
import { Card } from '../../parts/card.tsx';
import { LogRing } from '../../parts/log-ring.ts';
import { LogView } from '../../parts/log-view.tsx';
import { RangePicker } from '../../parts/range-picker.tsx';
import type { Range } from '../../parts/range-picker.tsx';
import { Series } from '../../parts/series.tsx';
import { Meter } from '../../parts/spark.tsx';
import { StatusWord } from '../../parts/status.tsx';
import { Terminal } from '../../parts/terminal.tsx';
import type { TerminalLink } from '../../parts/terminal-link.ts';
import { bytesText, percentText } from '../../parts/units.ts';
import { sampleLog, sampleValues } from './samples.ts';

const gib = 1024 ** 3;
const samples = 240;

export function LogsPart(): VNode {
  const [lines, setLines] = useState(5000);
  const log = useMemo(() => sampleLog(lines), [lines]);
  const none = useRef(new LogRing());
  const [range, setRange] = useState<Range>('15m');
  const end = Math.floor(Date.now() / 1000);
  const times = useMemo(() => Array.from({ length: samples }, (_, at) => end - (samples - at) * 5), []);
  return (
    <>
      <Card
        title="A log"
        actions={
          <>
            <Button isSmall onClick={() => setLines(100_000)}>
              100,000 lines
            </Button>
            <Button
              isSmall
              onClick={() =>
                log.push([
                  { text: 'one more line', at: Date.now(), level: 'info', source: 'api/1', seq: -1, mark: 'line' },
                ])
              }
            >
              One more
            </Button>
          </>
        }
      >
        <LogView
          key={lines}
          label="Sample log"
          ring={log}
          fileName="sample.log"
          empty=""
          hrefOf={(_, number) => `#line-${number}`}
        />
        <LogView label="Empty log" ring={none.current} fileName="empty.log" empty="No line yet." />
      </Card>
      <Card title="Series" actions={<RangePicker value={range} onChange={setRange} />}>
        <div class="cards cards-wide">
          <Series
            title="Processor"
            group="gallery"
            times={times}
            lines={[
              { label: 'web/1', values: sampleValues(samples, 40, 20) },
              { label: 'web/2', values: sampleValues(samples, 30, 8) },
            ]}
            format={percentText}
            limit={100}
            marks={[{ at: times[80] ?? 0, label: '#41' }]}
          />
          <Series
            title="Memory"
            group="gallery"
            times={times}
            lines={[{ label: 'Used', values: sampleValues(samples, 3 * gib, gib / 2) }]}
            format={bytesText}
            limit={4 * gib}
          />
        </div>
        <Meter label="Disk" used={182 * gib} total={200 * gib} format={bytesText} />
        <Meter label="Memory" used={12 * gib} total={32 * gib} format={bytesText} />
      </Card>
      <Card title="Terminal">
        <Echo />
      </Card>
    </>
  );
}

/** A terminal that answers with what is typed. */
function Echo(): VNode {
  const link = useMemo((): TerminalLink => {
    let write: (output: string) => void = () => undefined;
    return {
      subscribe(onOutput) {
        write = onOutput;
        write('\u001B[32mgreen\u001B[0m \u001B[1;31mbold red\u001B[0m \u001B[44mon blue\u001B[0m\r\n$ ');
        return () => {
          write = () => undefined;
        };
      },
      send: (text) => write(text === '\r' ? '\r\n$ ' : text),
      resize: () => undefined,
    };
  }, []);
  return (
    <Terminal label="Sample terminal" link={link} state={<StatusWord look={{ word: 'Connected', shape: 'good' }} />} />
  );
}
