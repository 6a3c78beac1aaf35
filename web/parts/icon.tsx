import type { VNode } from 'preact';
import {
  ArrowDown,
  ArrowUp,
  ChevronDown,
  ChevronRight,
  ChevronsUpDown,
  CircleHelp,
  Copy,
  Download,
  Ellipsis,
  ExternalLink,
  Eye,
  EyeOff,
  FoldVertical,
  Maximize,
  Plus,
  RefreshCw,
  Search,
  Terminal,
  Trash,
  WrapText,
  X,
} from 'lucide-static';

const icons = {
  'arrow-down': ArrowDown,
  'arrow-up': ArrowUp,
  'chevron-down': ChevronDown,
  'chevron-right': ChevronRight,
  sort: ChevronsUpDown,
  help: CircleHelp,
  copy: Copy,
  download: Download,
  more: Ellipsis,
  external: ExternalLink,
  reveal: Eye,
  hide: EyeOff,
  fold: FoldVertical,
  full: Maximize,
  plus: Plus,
  refresh: RefreshCw,
  search: Search,
  terminal: Terminal,
  remove: Trash,
  wrap: WrapText,
  close: X,
} as const;

export type IconName = keyof typeof icons;

/** A picture beside or in place of a word; it says nothing by itself to a screen reader. */
export function Icon({ name }: { readonly name: IconName }): VNode {
  // the text comes from the package of icons, never from data
  return <span class="icon" aria-hidden="true" dangerouslySetInnerHTML={{ __html: icons[name] }} />;
}
