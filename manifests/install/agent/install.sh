# Installs the agent on this machine, updates it, or removes it. Where the control plane serves this script, lines before
# these give it: version, base_url, release_files (per line: platform, size, SHA-256 and name), and the functions supervise_file,
# service_file and slice_file, which print what is installed beside the executable, and what patiently.sh has.
# A second run changes only what differs, and starts the agent again.

home=/opt/setpoint-agent
data=/var/lib/setpoint/agent
settings=/etc/setpoint/agent.env
pid_file=/run/setpoint-agent.pid
agent_log=/var/log/setpoint-agent.log
join_seconds=60
part=

say() {
  echo "setpoint: $*"
}

fail() {
  echo "setpoint: $*" >&2
  exit 1
}

usage() {
  cat <<END
Installs the agent of Setpoint $version, which $base_url serves.
Usage: curl -fsSL $base_url/install.sh | SETPOINT_JOIN_TOKEN=TOKEN sh -s -- --server $base_url/TENANT
  --server URL         the control plane with its tenant; without it that of the last run
  --token TOKEN        as SETPOINT_JOIN_TOKEN, but every user of this machine can see it while the script runs
  --allow-plain-http   the control plane may be reached by http beyond this machine
  --uninstall          stops the agent and removes it, with its containers; volumes and their data stay
END
}

main() {
  server= token=${SETPOINT_JOIN_TOKEN:-} plain_http= to_remove=
  unset SETPOINT_JOIN_TOKEN
  while [ $# -gt 0 ]; do
    case $1 in
      --server | --token) [ $# -ge 2 ] || fail "$1 lacks its value" ;;
      --allow-plain-http) plain_http=true ;;
      --uninstall) to_remove=yes ;;
      --help) usage && exit 0 ;;
      *) usage >&2 && fail "Unknown argument: $1" ;;
    esac
    case $1 in
      --server) server=$2 && shift ;;
      --token) token=$2 && shift ;;
    esac
    shift
  done
  trap '[ -z "$part" ] || rm -f "$part"' EXIT
  if [ -n "$to_remove" ]; then
    check_root
    uninstall
    exit
  fi
  check_arguments
  check_machine
  check_token
  install_executable
  install_files
  write_settings
  choose_version
  start_agent
  await_agent
  tell_what_is_missing
}

check_arguments() {
  [ -n "$server" ] || server=$(setting SETPOINT_SERVER)
  [ -n "$server" ] || { usage >&2 && fail 'The control plane is missing: --server'; }
  case $server in *[!][A-Za-z0-9.:/,_%-]*) fail "--server must be a URL, or several with commas: $server" ;; esac
  case $server in
    http://* | https://*) ;;
    *) fail "--server must begin with https:// or http://: $server" ;;
  esac
  case ",$server" in
    *,http://localhost[:/]* | *,http://127.*[:/]* | *,http://\[::1\][:/]*) ;;
    *,http://*)
      [ -n "$plain_http" ] || [ "$(setting SETPOINT_ALLOW_PLAIN_HTTP)" = true ] ||
        fail "With http, others on the network can read the join token and the secrets of workloads: let the control plane have an https address, or add --allow-plain-http on a private network that you trust: $server"
      ;;
  esac
  case $token in
    '' | sj_*) ;;
    *) fail 'The join token must begin with sj_: setpoint join SERVER makes one' ;;
  esac
  case $token in *[!A-Za-z0-9_-]*) fail 'The join token has characters that no token has: it was not copied whole' ;; esac
}

# The value of a setting in the file of the agent's settings; empty if it has none.
setting() {
  [ ! -f "$settings" ] || sed -n "s/^$1=//p" "$settings" | tail -n 1
}

check_machine() {
  [ "$(uname -s)" = Linux ] || fail "The agent runs on Linux: this is $(uname -s)"
  case $(uname -m) in
    x86_64 | amd64) platform=linux-x64 ;;
    aarch64 | arm64) platform=linux-arm64 ;;
    *) fail "There is no agent for the architecture $(uname -m): only for x86_64 and aarch64" ;;
  esac
  # shellcheck disable=SC2046 # one word per column
  set -- $(echo "$release_files" | sed -n "s/^$platform //p")
  [ $# -eq 3 ] || fail "The control plane has no agent for $platform: its operator must build one, by make release"
  size=$1 sha256=$2 name=$3
  check_root
  for tool in sha256sum readlink sed mv; do
    command -v "$tool" >/dev/null || fail "The program $tool is missing: install it, then run the command again"
  done
  command -v curl >/dev/null || command -v wget >/dev/null || fail 'curl or wget is missing: install one of them, then run the command again'
}

check_root() {
  [ "$(id -u)" = 0 ] || fail 'This needs root, as the agent drives the Docker engine and writes packet filter rules: sudo -i, then the command again'
}

check_token() {
  [ -n "$token" ] || [ -f "$data/identity.json" ] || fail 'This machine has not joined yet and needs a join token, which setpoint create server NAME or setpoint join SERVER prints: SETPOINT_JOIN_TOKEN=TOKEN'
  check_server
}

# An agent keeps its server: with the token and the address of another one it would join neither.
check_server() {
  await_removal
  [ -n "$token" ] && [ -f "$data/identity.json" ] || return 0
  own=$(sed -n 's/.*"server_id" *: *"\([0-9a-f-]*\)".*/\1/p' "$data/identity.json")
  wanted=$(printf '%s\n' "$token" | sed -n 's/^sj_\(.\{8\}\)\(.\{4\}\)\(.\{4\}\)\(.\{4\}\)\(.\{12\}\)_.*/\1-\2-\3-\4-\5/p')
  [ -n "$own" ] && [ -n "$wanted" ] && [ "$own" != "$wanted" ] || return 0
  fail "This machine has the agent of server $own, and the join token is of server $wanted. Nothing was changed. To keep the agent, run the command that setpoint join prints for its own server. To give the machine to the other server, remove the agent with its containers first: curl -fsSL $base_url/install.sh | sh -s -- --uninstall"
}

# The agent of a server that was deleted removes itself, and would remove what is installed meanwhile.
await_removal() {
  waited=0
  while is_leaving && [ "$waited" -lt "$join_seconds" ]; do
    [ "$waited" -gt 0 ] || say 'The agent of a server that was deleted removes itself: waiting for that'
    sleep 1
    waited=$((waited + 1))
  done
}

is_leaving() {
  [ -e "$data/uninstall" ] || { has_systemd && systemctl is-active --quiet setpoint-agent-uninstall.service; }
}

# May be repeated: a run that was cut off is completed by the next one. The executable removes itself with the rest.
uninstall() {
  # dumps of the operator stay where an agent was removed
  if [ ! -e "$home" ] && [ ! -e "$settings" ] && [ -z "$(ls -A "$data" 2>/dev/null | grep -vx imports)" ]; then
    say 'No agent is installed on this machine'
    return
  fi
  executable=$home/versions/$(cat "$home/current" 2>/dev/null || :)/setpoint-agent
  # releases of before cannot remove themselves
  "$executable" --help 2>/dev/null | grep -q '^  uninstall' || { check_machine && install_executable; }
  "$executable" uninstall --yes
}

checksum() {
  sha256sum "$1" | cut -d ' ' -f 1
}

install_executable() {
  executable=$home/versions/$version/setpoint-agent
  if [ -f "$executable" ] && [ "$(checksum "$executable")" = "$sha256" ]; then
    say "Version $version is here already"
    return
  fi
  mkdir -p "$home/versions/$version"
  # shellcheck disable=SC2046 # one word per column
  set -- $(df -Pk "$home" | tail -n 1)
  [ "$(($4 * 1024))" -gt "$((size * 2))" ] || fail "$home has $4 KiB free, and the agent needs $((size * 2 / 1024)): make room, then run the command again"
  part=$executable.part
  say "Fetching $base_url/agent/$name ($((size / 1000000)) MB)"
  fetch "$base_url/agent/$name" "$part" || fail "It could not be fetched. Check that this machine reaches $base_url, then run the command again"
  found=$(checksum "$part")
  [ "$found" = "$sha256" ] || fail "What was fetched is not the agent of this release: its SHA-256 is $found, and $sha256 is expected. Nothing was installed. Run the command again; if that does not help, what lies between this machine and the control plane changes files, or the control plane's own file was changed"
  chmod 755 "$part"
  check_runs "$part"
  mv -f "$part" "$executable"
  sync
}

fetch() {
  if command -v curl >/dev/null; then
    curl -fsSL --compressed --retry 3 --connect-timeout 10 --speed-limit 1000 --speed-time 60 --max-time 3600 --output "$2" "$1"
  else
    # the wget of busybox cannot bound its time itself
    timeout 3600 wget -q -O "$2" "$1"
  fi
}

# The executable needs the C and C++ libraries of the distribution, and libatomic, which small installations lack.
check_runs() {
  output=$("$1" --version 2>&1) && return
  case $output in
    *libatomic*) install_libatomic && output=$("$1" --version 2>&1) && return ;;
  esac
  fail "The agent does not run on this machine: $output. It needs glibc 2.28 or later, libstdc++ and libatomic"
}

install_libatomic() {
  if command -v apt-get >/dev/null; then set -- apt-get install -y -q libatomic1
  elif command -v dnf >/dev/null; then set -- dnf install -y -q libatomic
  elif command -v yum >/dev/null; then set -- yum install -y -q libatomic
  elif command -v zypper >/dev/null; then set -- zypper --non-interactive install libatomic1
  else return 1; fi
  say "The library libatomic is missing: $*"
  DEBIAN_FRONTEND=noninteractive
  export DEBIAN_FRONTEND
  patiently "$@" >&2 && return
  [ "$1" = apt-get ] && patiently apt-get update -q >&2 && patiently "$@" >&2
}

has_systemd() {
  [ -d /run/systemd/system ]
}

# Replaces a file by the standard input, and keeps it if it has that content.
put() {
  cat >"$2.new"
  chmod "$1" "$2.new"
  if cmp -s "$2.new" "$2" 2>/dev/null; then rm "$2.new"; else mv -f "$2.new" "$2" && say "Wrote $2"; fi
}

install_files() {
  supervise_file | put 755 "$home/supervise"
  printf '#!/bin/sh\nexec "%s/versions/$(cat %s/current)/setpoint-agent" "$@"\n' "$home" "$home" | put 755 /usr/local/bin/setpoint-agent
  has_systemd || return 0
  service_file | put 644 /etc/systemd/system/setpoint-agent.service
  slice_file | put 644 /etc/systemd/system/setpoint-builds.slice
}

# Whether the agent has used that token already.
has_used() {
  [ -f "$data/identity.json" ] && grep -q "\"used_token_hash\":\"$(printf %s "$1" | sha256sum | cut -d ' ' -f 1)\"" "$data/identity.json"
}

# Keeps the settings that an operator added. The file may hold a token: only root can read it.
write_settings() {
  mkdir -p "$(dirname "$settings")"
  [ -z "$token" ] || ! has_used "$token" || token=
  (
    umask 077
    {
      [ ! -f "$settings" ] || sed -e '/^SETPOINT_SERVER=/d' -e '/^SETPOINT_JOIN_TOKEN=/d' ${plain_http:+-e '/^SETPOINT_ALLOW_PLAIN_HTTP=/d'} "$settings"
      echo "SETPOINT_SERVER=$server"
      [ -z "$plain_http" ] || echo 'SETPOINT_ALLOW_PLAIN_HTTP=true'
      [ -z "$token" ] || echo "SETPOINT_JOIN_TOKEN=$token"
    } | put 600 "$settings"
  )
}

forget_token() {
  (umask 077 && sed '/^SETPOINT_JOIN_TOKEN=/d' "$settings" | put 600 "$settings") >/dev/null
}

note() {
  printf '%s\n' "$2" >"$home/$1.new"
  mv -f "$home/$1.new" "$home/$1"
}

# Another version than the one that runs is on trial: it must connect, or the supervisor goes back to the one before.
choose_version() {
  before=$(cat "$home/current" 2>/dev/null || :)
  if [ "$before" != "$version" ]; then
    if [ -x "$home/versions/$before/setpoint-agent" ]; then note previous "$before"; else rm -f "$home/previous"; fi
    note trial "$version"
    note current "$version"
  fi
  rm -f "$home/failed"
  # the previous version stays: it is what the supervisor goes back to
  for folder in "$home"/versions/*; do
    case ${folder##*/} in "$version" | "$(cat "$home/previous" 2>/dev/null)") ;; *) rm -rf "$folder" ;; esac
  done
}

start_agent() {
  if has_systemd; then
    systemctl daemon-reload
    systemctl enable --quiet setpoint-agent
    systemctl restart setpoint-agent || fail 'systemd cannot start the agent: journalctl -u setpoint-agent -n 50'
    log_hint='journalctl -u setpoint-agent'
    return
  fi
  stop_supervisor
  # Every setting of the file, as systemd would give it to the agent
  (
    while IFS= read -r line; do
      case $line in [A-Z]*=*) export "${line%%=*}=${line#*=}" ;; esac
    done <"$settings"
    cd /
    umask 077
    SETPOINT_AGENT_LOG=$agent_log setsid "$home/supervise" </dev/null >/dev/null 2>&1 &
    echo $! >"$pid_file"
  )
  log_hint="tail $agent_log"
}

stop_supervisor() {
  [ -f "$pid_file" ] || return 0
  old=$(cat "$pid_file")
  # the id may be that of another program by now
  [ -r "/proc/$old/cmdline" ] || return 0
  tr '\0' ' ' <"/proc/$old/cmdline" | grep -qF "$home/supervise" || return 0
  kill -TERM "$old"
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
    kill -0 "$old" 2>/dev/null || return 0
    sleep 1
  done
  fail "The supervisor that runs already does not end: kill process $old, then run the command again"
}

has_connected() {
  [ ! -f "$home/trial" ] || return 1
  [ "$(cat "$home/current")" = "$version" ] || return 1
  [ -z "$token" ] || { has_used "$token" && ! grep -q '"join_token"' "$data/identity.json"; }
}

await_agent() {
  waited=0
  until has_connected; do
    if [ -f "$home/failed" ]; then
      fail "Version $version did not connect to the control plane, and the version before it runs again. Its log: $log_hint"
    fi
    [ "$waited" -lt "$((join_seconds + 15))" ] || fail "The agent runs and has not joined within $join_seconds s; it goes on trying. Why: $log_hint"
    sleep 1
    waited=$((waited + 1))
  done
  if [ -n "$token" ]; then
    forget_token
    say 'The agent has joined the control plane'
  else
    say "The agent $version runs"
  fi
  has_systemd || say "This machine has no systemd: at the start of the machine, run $base_url/install.sh again or start $home/supervise with the settings of $settings"
}

tell_what_is_missing() {
  [ -S "$(setting SETPOINT_DOCKER_SOCKET || :)" ] || [ -S /var/run/docker.sock ] || say 'No Docker engine answers at /var/run/docker.sock: install one, such as by apt-get install docker.io. The agent waits for it'
  command -v git >/dev/null || say 'git is missing: applications cannot be built from their sources until it is installed'
  command -v iptables >/dev/null || say 'iptables is missing: ports of applications cannot be published until it is installed'
}

main "$@"
