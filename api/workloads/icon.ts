import { createHash } from 'node:crypto';
import { z } from 'zod';
import { badRequest } from '../ground/api-error.ts';

export const maxIconBytes = 512 * 1024;
const maxPixels = 2048;

export const IconType = z.enum(['image/png', 'image/jpeg', 'image/webp', 'image/gif']);
type IconType = z.infer<typeof IconType>;

/** An icon as it is stored: `data` in base64, `hash` is the SHA-256 of the bytes in hex. */
const StoredIcon = z.object({ v: z.literal(1), type: IconType, hash: z.string(), data: z.base64() });

export interface Icon {
  type: IconType;
  hash: string;
  bytes: Buffer;
}

/** The type's name in `image-size`, and whether the bytes are exactly one image of that format. */
const formats: Readonly<Record<IconType, { name: string; isWhole: (bytes: Buffer) => boolean }>> = {
  'image/png': { name: 'png', isWhole: isWholePng },
  'image/jpeg': { name: 'jpg', isWhole: isWholeJpeg },
  'image/webp': { name: 'webp', isWhole: isWholeWebp },
  'image/gif': { name: 'gif', isWhole: isWholeGif },
};

/**
 * Finds the format from the bytes, not from a name: they must be exactly one whole image. The pixels are not decoded.
 * @throws ApiError BAD_REQUEST with what an icon must be.
 */
export async function readIcon(bytes: Buffer): Promise<Icon> {
  const type = IconType.options.find((one) => formats[one].isWhole(bytes));
  if (type === undefined)
    throw badRequest('Icon must be one whole PNG, JPEG, WebP or GIF image, with nothing before or after it');
  const size = await sizeOf(bytes);
  if (size?.type !== formats[type].name) throw badRequest('Icon must have a size that can be read: save it anew');
  const { width, height } = size;
  if (!(width >= 1 && height >= 1 && width <= maxPixels && height <= maxPixels))
    throw badRequest(`Icon must have 1 to ${maxPixels} pixels in width and height: got ${width} × ${height}`);
  return { type, bytes, hash: createHash('sha256').update(bytes).digest('hex') };
}

export function encodeIcon({ type, hash, bytes }: Icon): string {
  return JSON.stringify({ v: 1, type, hash, data: bytes.toString('base64') } satisfies z.infer<typeof StoredIcon>);
}

/** @throws SyntaxError or ZodError if the text is not a stored icon. */
export function decodeIcon(text: string): Icon {
  const { type, hash, data } = StoredIcon.parse(JSON.parse(text));
  return { type, hash, bytes: Buffer.from(data, 'base64') };
}

async function sizeOf(bytes: Buffer): Promise<{ width: number; height: number; type?: string } | undefined> {
  const { imageSize } = await import('image-size'); // few requests need it
  try {
    return imageSize(bytes);
  } catch {
    return undefined;
  }
}

const pngStart = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

/** Walks the chunks from IHDR to IEND, which must be the end. */
function isWholePng(bytes: Buffer): boolean {
  if (!bytes.subarray(0, 8).equals(pngStart) || bytes.toString('latin1', 12, 16) !== 'IHDR') return false;
  for (let at = 8; at + 12 <= bytes.length;) {
    const end = at + 12 + bytes.readUInt32BE(at);
    if (bytes.toString('latin1', at + 4, at + 8) === 'IEND') return end === bytes.length;
    at = end;
  }
  return false;
}

/** Walks the segments, and the pixels after each start of scan, to the first end marker, which must be the end. */
function isWholeJpeg(bytes: Buffer): boolean {
  if (bytes.length < 4 || bytes.readUInt16BE(0) !== 0xffd8) return false;
  let hasPixels = false;
  for (let at = 2; at + 2 <= bytes.length;) {
    if (bytes[at] !== 0xff) return false;
    const marker = bytes[at + 1];
    if (marker === 0xd9) return hasPixels && at + 2 === bytes.length;
    if (marker === 0xff) {
      at += 1; // a fill byte
      continue;
    }
    if (at + 4 > bytes.length) return false;
    at += 2 + bytes.readUInt16BE(at + 2);
    if (marker !== 0xda) continue;
    hasPixels = true;
    at = afterPixels(bytes, at);
  }
  return false;
}

/** Returns where the segment after the pixels starts. Within pixels, 0xff is followed by 0 or by the number of a restart marker; any other byte starts a segment. */
function afterPixels(bytes: Buffer, from: number): number {
  let at = bytes.indexOf(0xff, from);
  for (; at !== -1; at = bytes.indexOf(0xff, at + 1)) {
    const next = bytes[at + 1] ?? 0;
    if (next !== 0 && (next < 0xd0 || next > 0xd7)) return at;
  }
  return bytes.length;
}

/** One RIFF container whose length is that of the bytes. */
function isWholeWebp(bytes: Buffer): boolean {
  if (bytes.length < 20 || bytes.toString('latin1', 0, 4) !== 'RIFF') return false;
  return bytes.toString('latin1', 8, 12) === 'WEBP' && bytes.readUInt32LE(4) + 8 === bytes.length;
}

/** Walks the blocks to the trailer, which must be the end. */
function isWholeGif(bytes: Buffer): boolean {
  if (bytes.length < 14 || !/^GIF8[79]a$/.test(bytes.toString('latin1', 0, 6))) return false;
  let at = 13 + colours(bytes[10]);
  while (at < bytes.length) {
    const kind = bytes[at];
    if (kind === 0x3b) return at === bytes.length - 1;
    if (kind === 0x21) at = afterBlocks(bytes, at + 2);
    else if (kind === 0x2c) at = afterBlocks(bytes, at + 11 + colours(bytes[at + 9]));
    else return false;
  }
  return false;
}

/** Size in bytes of the colour table that the packed field announces. */
function colours(packed = 0): number {
  return (packed & 0x80) === 0 ? 0 : 3 * 2 ** ((packed & 7) + 1);
}

/** Skips sub-blocks; an empty one ends them. */
function afterBlocks(bytes: Buffer, from: number): number {
  let at = from;
  for (let size = bytes[at]; size !== undefined && size > 0; size = bytes[at]) at += 1 + size;
  return at + 1;
}
