import { keys } from '../../../store/keys.ts';
import { notFound } from '../../ground/api-error.ts';
import { defineDownload, defineEndpoint } from '../../endpoint/endpoint.ts';
import { decodeIcon, encodeIcon, IconType, maxIconBytes, readIcon } from '../../workloads/icon.ts';
import { Project, projects } from '../../resources/project.ts';
import { UploadBody } from '../../http/upload.ts';

export const setProjectIcon = defineEndpoint({
  method: 'POST',
  path: '/projects/:id/icon',
  summary: 'Give a project an icon: PNG, JPEG, WebP or GIF of at most 512 KiB and 2048 × 2048 pixels',
  on: ['project', 'id'],
  heavy: true,
  upload: { maxBytes: maxIconBytes },
  body: UploadBody,
  response: Project,
  settle: projects.settle,
  handle: async (ctx, { it, body }) => {
    const icon = await readIcon(body.file.bytes);
    const { tenant } = ctx;
    const unit = ctx.repo.begin();
    const changed = unit.change(it, (draft) => {
      draft.icon_path = `/${tenant}/api/v1/projects/${it.meta.id}/icon?v=${icon.hash.slice(0, 16)}`;
    });
    const isSame = changed.meta.generation === it.meta.generation;
    if (!isSame) unit.write({ put: keys.bytes(tenant, 'project', it.meta.id), value: encodeIcon(icon) });
    return ctx.commit(unit, () => projects.answerOf(changed, ctx.view));
  },
});

export const deleteProjectIcon = defineEndpoint({
  method: 'DELETE',
  path: '/projects/:id/icon',
  summary: 'Take the icon of a project away',
  on: ['project', 'id'],
  handle: async (ctx, { it }) => {
    if (it.desired.icon_path === undefined) return undefined;
    const unit = ctx.repo.begin();
    unit.change(it, (draft) => void delete draft.icon_path);
    unit.write({ delete: keys.bytes(ctx.tenant, 'project', it.meta.id) });
    return ctx.commit(unit, () => undefined);
  },
});

export const getProjectIcon = defineDownload({
  path: '/projects/:id/icon',
  summary: 'The icon of a project; icon_path is its address',
  on: ['project', 'id'],
  types: IconType.options,
  handle: async (ctx, { it }) => {
    const entry =
      it.desired.icon_path === undefined
        ? undefined
        : await ctx.store.get(keys.bytes(ctx.tenant, 'project', it.meta.id));
    if (entry === undefined) throw notFound('Icon');
    const { type, hash, bytes } = decodeIcon(entry.value);
    return { bytes, type, etag: hash, fileName: `icon.${type.slice('image/'.length)}` };
  },
});
