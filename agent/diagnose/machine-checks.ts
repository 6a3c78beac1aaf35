import { floorBytes } from '../disk/disk-guard.ts';
import { firstThatPins, pinsAddresses } from '../tasks/git-version.ts';
import { inMiB, type Check } from './check.ts';

/** Share of the files of a disk, and of the memory, below which there is a warning, and a failure. */
const files = { few: 0.1, least: 0.02 } as const;
const memoryShare = { few: 0.1, least: 0.05 } as const;
/** Share of the watchers of files that are in use. */
const watchers = { many: 0.8, most: 0.95 } as const;
/** Fewer watches than this stop common programs. */
const fewWatches = 8192;

export const disk: Check = {
  name: 'disk',
  async look(world) {
    const { freeBytes, totalBytes } = await world.disk();
    const floor = floorBytes(totalBytes);
    const message = `${inMiB(freeBytes)} of ${inMiB(totalBytes)} are free`;
    const remedy =
      'Heal it, which removes images that Setpoint made or pulled and does not need; then look for what else takes room: docker system df, du -xh /var';
    if (freeBytes < floor)
      return {
        status: 'fail',
        message: `${message}: builds and pulls need ${inMiB(floor)}`,
        remedy,
        isHealable: true,
      };
    if (freeBytes < 2 * floor)
      return {
        status: 'warn',
        message: `${message}: builds and pulls end at ${inMiB(floor)}`,
        remedy,
        isHealable: true,
      };
    return { status: 'pass', message };
  },
  async heal(world) {
    const before = await world.disk();
    const images = await world.clean();
    const freed = Math.max(0, (await world.disk()).freeBytes - before.freeBytes);
    return [
      {
        status: 'done',
        target: null,
        message: `Removed ${images} images and what else Setpoint does not need: ${inMiB(freed)} more are free`,
      },
    ];
  },
};

export const inodes: Check = {
  name: 'inodes',
  async look(world) {
    const { files: bound } = await world.disk();
    if (bound === undefined)
      return { status: 'pass', message: 'The file system bounds the number of files by its room alone' };
    const share = bound.free / bound.total;
    const message = `${bound.free} of ${bound.total} files may still be made`;
    const remedy =
      'Find folders with very many small files and remove what is not needed: du --inodes -x / | sort -n | tail';
    if (share < files.least) return { status: 'fail', message, remedy };
    if (share < files.few) return { status: 'warn', message, remedy };
    return { status: 'pass', message };
  },
};

export const memory: Check = {
  name: 'memory',
  async look(world) {
    const { total, available } = await world.memory();
    const message = `${inMiB(available)} of ${inMiB(total)} are available`;
    const remedy =
      'Set memory_limit of the applications that take most, scale them down, or move some to another server: docker stats';
    if (available < total * memoryShare.least)
      return { status: 'fail', message: `${message}: the kernel may end instances at any time`, remedy };
    if (available < total * memoryShare.few) return { status: 'warn', message, remedy };
    return { status: 'pass', message };
  },
};

export const inotify: Check = {
  name: 'inotify',
  async look(world, signal) {
    const { instances, maxInstances, maxWatches } = await world.inotify(signal);
    const message = `${instances} of ${maxInstances} watchers of files are in use, each user may watch ${maxWatches} files`;
    const remedy =
      'Raise both bounds: sysctl -w fs.inotify.max_user_instances=1024 fs.inotify.max_user_watches=524288, and keep them in /etc/sysctl.d/';
    if (instances >= maxInstances * watchers.most)
      return { status: 'fail', message: `${message}: programs in containers fail with "too many open files"`, remedy };
    if (instances >= maxInstances * watchers.many || maxWatches < fewWatches)
      return { status: 'warn', message, remedy };
    return { status: 'pass', message };
  },
};

export const git: Check = {
  name: 'git',
  async look(world, signal) {
    const version = await world.git(signal);
    if (version === undefined)
      return {
        status: 'warn',
        message: 'There is no git: nothing is built from repositories',
        remedy: `Install git ${firstThatPins} or later`,
      };
    const message = `git ${version.text} is installed`;
    if (!pinsAddresses(version))
      return {
        status: 'warn',
        message: `${message}: repositories are read by ssh only, as it cannot hold a connection by https to the address that was checked`,
        remedy: `Install git ${firstThatPins} or later; Ubuntu 22.04 has it in ppa:git-core/ppa`,
      };
    return { status: 'pass', message };
  },
};
