import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { ComposeConversion, ConvertedTemplate, TemplateReport, TemplateText } from '../../resources/template.ts';

export const validateTemplate = defineEndpoint({
  method: 'POST',
  path: '/templates/validate',
  summary: 'What a text declares as a template, and what is wrong with it, by line and column. Changes nothing',
  body: TemplateText,
  response: TemplateReport,
  heavy: true,
  handle: async (_ctx, { body }) => {
    const { readTemplate } = await import('../../templates/read.ts'); // few requests need it and its parser of YAML
    const { requireHonest, toReport } = await import('../../templates/report.ts');
    const read = readTemplate(body.content);
    requireHonest(read.findings);
    return toReport(read);
  },
});

export const convertCompose = defineEndpoint({
  method: 'POST',
  path: '/templates/convert-compose',
  summary: 'A compose file as a template, with an account of each of its keys. Changes nothing',
  body: ComposeConversion,
  response: ConvertedTemplate,
  heavy: true,
  handle: async (_ctx, { body }) => {
    const { convertCompose: convert } = await import('../../templates/convert-compose.ts');
    return convert(body);
  },
});
