#!/bin/sh
# Makes a Debian or Ubuntu machine ready: installs the packages that are missing and, but for `check`, starts the Docker
# engine. Does nothing where all is there. Says what it is going to do before it does it.
# Usage: machine.sh check | run | test
set -eu

# What shows that a package is not needed (a program, a library or a file), and the package.
needs_check='
libatomic.so.1 libatomic1
'
needs_run="$needs_check
curl curl
git git
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
ip iproute2
aiosmtpd python3-aiosmtpd
chromium chromium
"
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
    [ -z "$sign" ] || is_there "$sign" || echo "$package"
  done
}

install_packages() {
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q "$@"
}

ensure_packages() {
  # shellcheck disable=SC2046 # one word per package
  set -- $(missing_packages "$1")
  [ $# -gt 0 ] || return 0
  command -v apt-get >/dev/null || fail "Missing on this machine, and not installed as it has no apt-get: $*"
  [ "$(id -u)" = 0 ] || fail "Missing on this machine, to be installed by root: $*"
  echo "Installing Debian packages: $*"
  install_packages "$@" || { apt-get update -q && install_packages "$@"; }
}

engine_answers() {
  timeout 5 docker --host unix:///var/run/docker.sock version >/dev/null 2>&1
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

case ${1:-} in
  check) ensure_packages "$needs_check" ;;
  run) ensure_packages "$needs_run"; ensure_engine ;;
  test) ensure_packages "$needs_test"; ensure_engine ;;
  *) fail 'Usage: machine.sh check | run | test' ;;
esac
