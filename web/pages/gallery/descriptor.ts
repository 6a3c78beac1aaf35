import type { PageDescriptor } from '../page.ts';

export const galleryDescriptor: PageDescriptor = {
  path: 'gallery',
  title: 'Gallery',
  place: 'none',
  kinds: [],
  load: async () => (await import('./gallery-page.tsx')).GalleryPage,
};
