import { z } from 'zod';

/** As the path of a Dockerfile: it is generated from what the repository declares. A file of this name is `./auto`. */
export const generatedPath = 'auto';

/** Most characters of a generated Dockerfile. */
export const maxDockerfileChars = 16 * 1024;

/** What a generated Dockerfile depends on beside the repository. */
export const GenerateSettings = z.object({
  /** Port that the program gets as `PORT`. */
  port: z.int().optional(),
  /** The application has a start command, so that the image needs none. */
  has_command: z.boolean().default(false),
  /** Type of the application: of a `static` one the files are served. */
  app_type: z.string().default('web'),
});
export type GenerateSettings = z.infer<typeof GenerateSettings>;
