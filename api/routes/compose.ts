import { folderOf } from '../../compose/paths.ts';
import { defineEndpoint } from '../endpoint/endpoint.ts';
import { ComposeCheck, ComposeReport, toComposeReport } from '../resources/compose.ts';

export const validateCompose = defineEndpoint({
  method: 'POST',
  path: '/compose/validate',
  summary: 'What a compose file declares here: what of it is refused, and what means something else. Changes nothing',
  body: ComposeCheck,
  response: ComposeReport,
  heavy: true,
  handle: async (_ctx, { body }) => {
    const { parseCompose } = await import('../../compose/parse.ts'); // few requests need it and its parser of YAML
    return toComposeReport(
      parseCompose({
        text: body.content,
        variables: new Map(Object.entries(body.env ?? {})),
        inRepository: body.in_repository ?? body.compose_path !== undefined,
        folder: body.compose_path && folderOf(body.compose_path),
      }),
    );
  },
});
