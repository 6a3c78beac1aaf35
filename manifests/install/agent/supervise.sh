#!/bin/sh
# Runs the agent and starts it again when it ends. TERM ends both. It lies beside
#   versions/VERSION/setpoint-agent   the executables
#   current                           a file with the version that runs
#   previous                          a file with the version before it
#   trial                             a file with a version that has not connected yet since it was installed
# A version on trial removes that file once the control plane has welcomed it. One that ends before, or has not done so
# after 60 s, is left for the previous version, and the file `failed` names it. Each file is replaced as a whole, so that
# a machine that stops at any instant starts with a version that works.
# Without systemd the output goes to the file SETPOINT_AGENT_LOG, which has at most 10 MB, as the file before it has.
set -u
home=$(dirname "$(readlink -f "$0")")
export SETPOINT_AGENT_HOME="$home"
# One arena of memory for all threads: the agent waits more than it computes, and would hold what each arena has left over.
export MALLOC_ARENA_MAX="${MALLOC_ARENA_MAX:-1}"
# The parts of a backup, of some MiB each, go back to the machine when they are freed.
export MALLOC_MMAP_THRESHOLD_="${MALLOC_MMAP_THRESHOLD_:-1048576}"
log=${SETPOINT_AGENT_LOG:-}
trial_seconds=60
log_bytes=10000000
child=
stopping=

stop() {
  stopping=yes
  [ -z "$child" ] || kill -TERM "$child" 2>/dev/null
}
trap stop TERM INT

say() {
  if [ -n "$log" ]; then echo "setpoint-agent: $*" >>"$log"; else echo "setpoint-agent: $*"; fi
}

# Waits for seconds, or until a signal comes.
pause() {
  sleep "$1" &
  wait $!
}

write() {
  printf '%s\n' "$2" >"$home/$1.new" && mv -f "$home/$1.new" "$home/$1"
}

# Whether the version that runs is on trial, and there is one to go back to. An update that was cut off before it took
# effect leaves no trial.
is_on_trial() {
  [ -f "$home/trial" ] || return 1
  [ "$(cat "$home/trial")" = "$version" ] || { rm -f "$home/trial" && return 1; }
  [ -f "$home/previous" ]
}

is_running() {
  kill -0 "$child" 2>/dev/null
}

start() {
  version=$(cat "$home/current")
  if [ -n "$log" ]; then "$home/versions/$version/setpoint-agent" >>"$log" 2>&1 & else "$home/versions/$version/setpoint-agent" & fi
  child=$!
}

# Waits until the agent has ended. Reads its exit code, so that the process is gone.
ended() {
  while is_running; do wait "$child" || :; done
  child=
}

watch_trial() {
  waited=0
  while [ "$waited" -lt "$trial_seconds" ] && [ -z "$stopping" ] && [ -f "$home/trial" ] && is_running; do
    pause 1
    waited=$((waited + 1))
  done
  [ -z "$stopping" ] && [ -f "$home/trial" ] || return 0
  before=$(cat "$home/previous")
  say "Version $version did not connect within $trial_seconds s: going back to $before"
  if write failed "$version" && write current "$before"; then
    rm -f "$home/trial"
  else
    # as on a full disk: it stays on trial, and goes back after the next start
    rm -f "$home/failed"
    say "Cannot write in $home: $version is tried again"
  fi
  if is_running; then
    kill -TERM "$child" 2>/dev/null
    for _ in 1 2 3 4 5 6 7 8 9 10; do ! is_running || pause 1; done
    kill -KILL "$child" 2>/dev/null
  fi
}

watch_log() {
  while [ -z "$stopping" ] && is_running; do
    pause 5
    [ "$(wc -c <"$log")" -le "$log_bytes" ] || { cp "$log" "$log.1" && : >"$log"; }
  done
}

rest=1
while [ -z "$stopping" ]; do
  began=$(date +%s)
  start
  ! is_on_trial || watch_trial
  [ -z "$log" ] || watch_log
  ended
  [ -z "$stopping" ] || break
  if [ $(($(date +%s) - began)) -ge 60 ]; then rest=1; fi
  say "The agent ended and is started again in $rest s"
  pause "$rest"
  rest=$((rest * 2))
  [ "$rest" -le 30 ] || rest=30
done
