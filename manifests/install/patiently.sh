# Part of the scripts that install packages; `say` is theirs. POSIX sh.

# How often a lock of the package manager is tried, and the seconds between: 20 minutes, as an upgrade at the start of a
# machine may take.
lock_tries=600
lock_pause=2
# All calls of a script share them.
lock_tried=0

# Runs a package manager. While another program has a lock of it, waits, and says for whom. What it printed last is in
# `words`, and is printed.
patiently() {
  tries=$lock_tried told= printed=$(mktemp) || return 1
  # into a file: what a package starts may keep a pipe open. In English, as its words are looked for.
  until LC_ALL=C "$@" >"$printed" 2>&1; do
    words=$(cat "$printed")
    case $words in
      *'Could not open lock file'*) tries=$lock_tries ;;
      *'Could not get lock'* | *'locked by another process'* | *'locked by the application'*) ;;
      *) tries=$lock_tries ;;
    esac
    if [ "$tries" -ge "$lock_tries" ]; then
      rm -f "$printed"
      printf '%s\n' "$words"
      return 1
    fi
    holder=$(lock_holder "$words")
    [ "$holder" = "$told" ] || say "Waits for $holder, which has the package manager"
    told=$holder tries=$((tries + 1)) lock_tried=$((lock_tried + 1))
    sleep "$lock_pause"
  done
  words=$(cat "$printed")
  rm -f "$printed"
  printf '%s\n' "$words"
  [ -z "$told" ] || say 'The package manager is free again: the installation goes on'
}

# Which program has the lock: as the package manager said, or as the open files of this machine show.
lock_holder() {
  pid=$(printf '%s\n' "$1" | sed -n -e 's/.*held by process \([0-9][0-9]*\).*/\1/p' -e 's/.*with pid \([0-9][0-9]*\).*/\1/p' | tail -n 1)
  [ -n "$pid" ] || pid=$(lock_opener)
  name=$(cat "/proc/$pid/comm" 2>/dev/null) || name=
  if [ -z "$pid" ]; then echo 'another program'; else echo "${name:-another program} (process $pid)"; fi
}

lock_opener() {
  for fd in /proc/[0-9]*/fd/*; do
    for lock in /var/lib/dpkg/lock-frontend /var/lib/dpkg/lock /var/lib/apt/lists/lock /var/cache/apt/archives/lock; do
      [ "$fd" -ef "$lock" ] || continue
      pid=${fd#/proc/}
      echo "${pid%%/*}"
      return
    done
  done
}
