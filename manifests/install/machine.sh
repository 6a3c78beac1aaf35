#!/bin/sh
# Prepares a Debian or Ubuntu machine: installs missing packages and, except for `check`, starts the Docker engine. Does
# nothing if everything is present. Prints each step before it begins. `list` only prints the packages. `test` and `fresh`
# are for Debian alone: Ubuntu has not all of their packages.
# Usage: machine.sh [list] check | run | test | fresh
set -eu
# shellcheck source=manifests/install/patiently.sh
. "$(dirname "$(readlink -f "$0")")/patiently.sh"
# cron, and su without `-`, have a path without the programs of root: what is installed would count as missing.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

# Per line: a program, library or file, and the package to install if it is missing. Of several packages, the first that
# the distribution has is installed: Debian 13 split the engine's command line from the engine.
needs_check='
libatomic.so.1 libatomic1
'
needs_run="$needs_check
curl curl
git git
ip iproute2
iptables iptables
dockerd docker.io
ssh openssh-client
/bin/busybox busybox-static
/etc/ssl/certs/ca-certificates.crt ca-certificates
"
needs_test="$needs_run
etcd etcd-server
etcdctl etcd-client
openssl openssl
docker docker-cli|docker.io
mkfs.ext4 e2fsprogs
mmdebstrap mmdebstrap
mount mount
sshd openssh-server
docker-registry docker-registry
sudo sudo
aiosmtpd python3-aiosmtpd
prometheus prometheus
promtool promtool|prometheus
chromium chromium
"
needs_fresh="$needs_test
debootstrap debootstrap
qemu-aarch64-static qemu-user-static
"
# Programs that a later Debian has, and the packages that have them. They run here as they are: they need only libc.
later_test='
caddy caddy
pebble pebble
pebble-challtestsrv pebble
'
# Services that packages of the tests enable. The tests start these programs themselves, on ports of their own.
services_of_tests='
etcd-server etcd.service
openssh-server ssh.service
docker-registry docker-registry.service
prometheus prometheus.service
'
engine_log=/var/log/setpoint-dockerd.log

fail() {
  echo "$*" >&2
  exit 1
}

is_there() {
  case $1 in
    /*) [ -e "$1" ] ;;
    *.so.*) ldconfig -p | grep -q "^[[:space:]]$1 " ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

missing_packages() {
  echo "$1" | while read -r sign package; do
    [ -z "$sign" ] || is_there "$sign" || first_known "$package"
  done
}

# Prints the first of the packages, separated by `|`, that the distribution has; the last one if that is not known.
first_known() {
  case $1 in
    *'|'*) if [ -n "$(apt-cache madison "${1%%|*}" 2>/dev/null)" ]; then echo "${1%%|*}"; else first_known "${1#*|}"; fi ;;
    *) echo "$1" ;;
  esac
}

say() {
  echo "$*"
}

install_packages() {
  DEBIAN_FRONTEND=noninteractive
  export DEBIAN_FRONTEND
  case " $* " in
    # Its recommended packages are services that monitor the machine.
    *' prometheus '*) patiently apt-get install -y -q --no-install-recommends prometheus || return 1 ;;
  esac
  patiently apt-get install -y -q "$@"
}

ensure_packages() {
  # shellcheck disable=SC2046 # one word per package
  set -- $(missing_packages "$1")
  [ $# -gt 0 ] || return 0
  command -v apt-get >/dev/null || fail "Missing on this machine, and not installed as it has no apt-get: $*"
  [ "$(id -u)" = 0 ] || fail "Missing on this machine, to be installed by root: $*"
  echo "Installing Debian packages: $*"
  own=$(services_before)
  install_packages "$@" || { patiently apt-get update -q && install_packages "$@"; }
  [ ! -d /run/systemd/system ] || stop_services_of "$@"
}

# Prints those of the services that run, or are to run, already: they are the machine's own.
services_before() {
  [ -d /run/systemd/system ] || return 0
  echo "$services_of_tests" | while read -r _ unit; do
    [ -n "$unit" ] || continue
    systemctl is-active --quiet "$unit" || systemctl is-enabled --quiet "$unit" 2>/dev/null || continue
    echo "$unit"
  done
}

# Stops services that only the tests need and that a package has started.
stop_services_of() {
  echo "$services_of_tests" | while read -r package unit; do
    case " $* " in *" ${package:-none} "*) ;; *) continue ;; esac
    ! echo "$own" | grep -qxF "$unit" || continue
    echo "Stopping and disabling $unit, which the package $package started"
    systemctl disable --now --quiet "$unit" || fail "Cannot stop $unit: run systemctl disable --now $unit"
  done
}

# Installs programs of a later Debian from the mirror that this machine uses, without changing its own packages.
ensure_later() {
  # shellcheck disable=SC2046 # one word per package
  set -- $(missing_packages "$1" | sort -u)
  [ $# -gt 0 ] || return 0
  command -v apt-get >/dev/null || fail "Missing on this machine, and not installed as it has no apt-get: $*"
  [ "$(id -u)" = 0 ] || fail "Missing on this machine, to be installed by root: $*"
  mirror=$(mirror_of_debian)
  [ -n "$mirror" ] || fail "Missing on this machine, whose apt sources name no mirror of Debian: $*"
  echo "Installing programs of Debian sid: $*"
  later=$(mktemp -d)
  mkdir -p "$later/lists/partial" "$later/cache/archives/partial" "$later/etc/apt.conf.d" "$later/etc/preferences.d" "$later/files"
  : >"$later/status"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" >"$later/etc/sources.list"
  later_apt update && (cd "$later" && later_apt download "$@") || fail "Cannot download from $mirror: $*"
  for file in "$later"/*.deb; do dpkg -x "$file" "$later/files"; done
  cp "$later"/files/usr/bin/* /usr/local/bin/
  rm -rf "$later"
}

later_apt() {
  apt-get -q -o APT::Sandbox::User=root -o "Dir::Etc=$later/etc" -o "Dir::State=$later" -o "Dir::State::Lists=$later/lists" \
    -o "Dir::Cache=$later/cache" -o "Dir::State::Status=$later/status" -o Acquire::Check-Valid-Until=false "$@"
}

# The first source of apt that is a mirror of Debian itself.
mirror_of_debian() {
  cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list /etc/apt/sources.list 2>/dev/null |
    grep -oE '^(URIs:|deb ).*' | grep -oE '[a-z+]+://[^ ]+' | grep -v -- '-security' | head -n 1
}

engine_answers() {
  curl --silent --fail --max-time 5 --unix-socket /var/run/docker.sock --output /dev/null http://localhost/_ping
}

ensure_engine() {
  engine_answers && return 0
  [ "$(id -u)" = 0 ] || fail 'The Docker engine does not answer on /var/run/docker.sock: to be started by root'
  if [ -d /run/systemd/system ]; then
    echo 'Starting the Docker engine: systemctl start docker'
    systemctl start docker
  else
    echo "Starting the Docker engine: dockerd, which logs to $engine_log"
    setsid dockerd >>"$engine_log" 2>&1 </dev/null &
  fi
  for _ in $(seq 60); do
    engine_answers && return 0
    sleep 0.5
  done
  [ ! -f "$engine_log" ] || tail -n 20 "$engine_log" >&2
  fail 'The Docker engine does not answer on /var/run/docker.sock 30 s after its start'
}

list_packages() {
  echo "$1" | while read -r sign package; do
    [ -z "$sign" ] || first_known "$package"
  done
}

case "$*" in
  check) ensure_packages "$needs_check" ;;
  run) ensure_packages "$needs_run"; ensure_engine ;;
  test) ensure_packages "$needs_test"; ensure_later "$later_test"; ensure_engine ;;
  fresh) ensure_packages "$needs_fresh"; ensure_later "$later_test"; ensure_engine ;;
  'list check') list_packages "$needs_check" ;;
  'list run') list_packages "$needs_run" ;;
  'list test') list_packages "$needs_test" ;;
  'list fresh') list_packages "$needs_fresh" ;;
  *) fail 'Usage: machine.sh [list] check | run | test | fresh' ;;
esac
