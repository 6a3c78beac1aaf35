# Runs one job of provisioning on this machine, apart from the connection, so that a connection that breaks ends nothing.
# Lines before these give it: job (its id), seconds (how long it may take), patience (how long to wait here), token,
# server, plain_http (empty, or the argument that allows it), starts (empty: only look), and payload, which prints the script of the job. POSIX sh; it runs as root.
# Prints the state of the job, NAME=VALUE. There is one job at a time: another one is waited for.

LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH
folder=/var/lib/setpoint/provision

has_ended() {
  [ -f "$folder/code" ] && [ "$(cat "$folder/job" 2>/dev/null)" = "$job" ]
}

# The job has the lock as long as it runs; what it starts and leaves behind does not. Its files are complete before the
# name of the job is, so that a start that is cut off is repeated.
start() {
  rm -f "$folder/job" "$folder/code"
  payload >"$folder/script"
  : >"$folder/log"
  printf '%s\n' "$job" >"$folder/job"
  SETPOINT_JOIN_TOKEN=$token setsid sh -c '
    cd /
    timeout "$1" sh "$2/script" --server "$3" $4 </dev/null >"$2/log" 2>&1 9>&-
    echo $? >"$2/code.new"
    rm -f "$2/script"
    mv -f "$2/code.new" "$2/code"
  ' sh "$seconds" "$folder" "$server" "$plain_http" </dev/null >/dev/null 2>&1 &
}

# The last message of the job itself.
message() {
  grep '^setpoint: ' "$folder/log" 2>/dev/null | tail -n 1
}

# A line as it is told.
told() {
  printf '%s' "${1#setpoint: }" | tr -cd '\040-\176' | cut -c 1-600
}

# What the job said last: its own message, where it has one.
said() {
  own=$(message)
  [ -n "$own" ] || own=$(grep . "$folder/log" 2>/dev/null | tail -n 1)
  told "$own"
}

main() {
  for tool in flock setsid timeout; do
    command -v "$tool" >/dev/null 2>&1 || { echo "lacks=$tool" && return; }
  done
  umask 077
  mkdir -p "$folder" || return
  exec 9>"$folder/lock"
  if flock -n 9; then
    if ! has_ended; then
      [ -n "$starts" ] || { echo state=none && return; }
      start
    fi
  fi
  exec 9>&-
  waited=0
  while ! has_ended && [ "$waited" -lt "$patience" ]; do
    sleep 1
    waited=$((waited + 1))
  done
  if has_ended; then
    echo state=ended
    echo "code=$(cat "$folder/code")"
    echo "says=$(said)"
  else
    echo state=running
    echo "says=$(told "$(message)")"
  fi
}

main
