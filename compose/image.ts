/**
 * What is wrong with an image reference, in words that follow its key; `undefined` if nothing. An image id, and a name
 * as built images have it, are refused: they may be of another project.
 */
export function imageFault(text: string): string | undefined {
  if (text.length > 255 || !reference.test(text))
    return 'must be an image such as nginx:1.27 or registry.example/team/app@sha256:…';
  if (/^(?:sha(?:256|384|512)(?:[:@]|$)|[0-9a-f]{64}$)/.test(text))
    return 'must name an image by repository and tag, not by its id';
  if (/^(?:(?:index\.)?docker\.io\/(?:library\/)?)?setpoint(?:[/:@]|$)/i.test(text))
    return 'must not begin with setpoint/, which names built images';
  return undefined;
}

const reference =
  /^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?\/)?[a-z0-9]+([._-]+[a-z0-9]+)*(\/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[a-f0-9]{64})?$/;
