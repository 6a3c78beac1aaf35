import type { DeepReadonly } from './deep-readonly.ts';
import type { BuiltImage } from './kinds/application.ts';
import type { StoredComposedService } from './kinds/composed-service.ts';
import type { ReadonlyResource } from './resource.ts';

/** The image that a deployment has built or reuses. */
export function builtBy({ desired, observed }: ReadonlyResource<'deployment'>): DeepReadonly<BuiltImage> | undefined {
  if (observed?.image === undefined || observed.image_digest === undefined) return desired.reuse;
  const { image, image_digest, commit, commit_message } = observed;
  return {
    image,
    image_digest,
    ...(desired.services !== undefined && { services: imagesOf(desired.services, observed.service_digests) }),
    ...(commit !== undefined && { commit }),
    ...(commit_message !== undefined && { commit_message }),
  };
}

/** The images of services, as far as they were found. */
function imagesOf(
  services: DeepReadonly<readonly StoredComposedService[]>,
  digests: Readonly<Record<string, string>> = {},
): NonNullable<BuiltImage['services']> {
  return Object.fromEntries(
    services.flatMap(({ name, image, image_digest = digests[name] }) =>
      image === undefined || image_digest === undefined ? [] : [[name, { image, image_digest }]],
    ),
  );
}
