import { z } from 'zod';

/**
 * An image reference: optional registry, path, tag, digest. An image id, and a name as built images have it, are
 * refused: they may be of another project.
 */
export const ImageUrl = z
  .string()
  .min(1)
  .max(255)
  .regex(
    /^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?\/)?[a-z0-9]+([._-]+[a-z0-9]+)*(\/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[a-f0-9]{64})?$/,
    'Must be an image such as nginx:1.27 or registry.example/team/app@sha256:…',
  )
  .refine(
    (text) => !/^(?:sha(?:256|384|512)(?:[:@]|$)|[0-9a-f]{64}$)/.test(text),
    'Must name an image by repository and tag, not by its id',
  )
  .refine(
    (text) => !/^(?:(?:index\.)?docker\.io\/(?:library\/)?)?setpoint(?:[/:@]|$)/i.test(text),
    'Must not begin with setpoint/, which names built images: deploy them from their source',
  );
