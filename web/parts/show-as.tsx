import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { Button } from './button.tsx';
import { Command } from './command.tsx';
import { asCurl, withoutSecrets, yamlDocument } from './request-text.ts';
import type { ShownRequest } from './request-text.ts';

interface ShowAsProps {
  readonly request: ShownRequest;
  readonly origin: string;
  /** The command of `setpoint` that does the same. */
  readonly command?: string | undefined;
  /** The manifest that means the same. */
  readonly manifest?: unknown;
}

/** The request of a form as curl, as a command, and as YAML. Secrets are names of variables in all of them. */
export function ShowAs({ request, origin, command, manifest }: ShowAsProps): VNode {
  const texts: [label: string, text: string][] = [['curl', asCurl(origin, request)]];
  if (command !== undefined) texts.push(['Command', command]);
  if (manifest !== undefined) texts.push(['YAML', yamlDocument(withoutSecrets(manifest, request.secrets ?? []))]);
  const [chosen, setChosen] = useState('curl');
  const text = texts.find(([label]) => label === chosen)?.[1] ?? '';
  return (
    <details class="details show-as">
      <summary>
        Show as curl
        {texts.length > 1 &&
          `, ${texts
            .slice(1)
            .map(([label]) => label)
            .join(', ')}`}
      </summary>
      <div class="stack-tight">
        <div class="button-group" role="group" aria-label="Form of the request">
          {texts.map(([label]) => (
            <Button key={label} isSmall pressed={label === chosen} onClick={() => setChosen(label)}>
              {label}
            </Button>
          ))}
        </div>
        <Command text={text} label={`Copy as ${chosen}`} />
      </div>
    </details>
  );
}
