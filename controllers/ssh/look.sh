# Looks at a machine and changes nothing. Prints one fact per line, NAME=VALUE. A fact that cannot be had is left out.
# POSIX sh; it runs as the user of the login, or as root.

LC_ALL=C
export LC_ALL
PATH=$PATH:/usr/sbin:/sbin
export PATH

# Prints the fact, unless it is empty. Values have one line of at most 200 printable characters.
fact() {
  value=$(printf '%s' "$2" | tr -cd '\040-\176' | cut -c 1-200)
  [ -z "$value" ] || printf '%s=%s\n' "$1" "$value"
}

there() { command -v "$1" >/dev/null 2>&1; }

if [ -r /etc/os-release ]; then
  # In a shell of its own, so that it sets nothing here.
  fact os "$(. /etc/os-release && printf '%s' "$ID")"
  fact os_like "$(. /etc/os-release && printf '%s' "$ID_LIKE")"
  fact os_version "$(. /etc/os-release && printf '%s' "$VERSION_ID")"
  fact os_name "$(. /etc/os-release && printf '%s' "$PRETTY_NAME")"
fi
fact kernel "$(uname -s)"
if ldd --version 2>&1 | grep -qi musl; then fact libc musl; fi
fact machine "$(uname -m)"
fact clock "$(date +%s)"

if [ "$(id -u)" = 0 ]; then
  fact root yes
elif ! there sudo; then
  fact sudo missing
# What is asked for is what runs later: a rule may be for that alone. Its input is not this script.
elif refusal=$(sudo -k -n -- sh -s </dev/null 2>&1); then
  fact sudo free
else
  fact sudo asks
  fact sudo_says "$refusal"
fi

if [ -d /run/systemd/system ]; then fact init systemd; else fact init other; fi
for manager in apt-get dnf yum zypper apk pacman; do
  if there "$manager"; then
    fact packages "$manager"
    break
  fi
done

# The folder of the engine may not exist yet: the nearest one above it counts.
folder=/var/lib/docker
while [ ! -d "$folder" ]; do folder=${folder%/*}; folder=${folder:-/}; done
fact disk_free_kib "$(df -Pk "$folder" 2>/dev/null | awk 'NR == 2 { print $4 }')"
fact inodes_free "$(df -Pi "$folder" 2>/dev/null | awk 'NR == 2 { print $4 }')"
fact memory_kib "$(awk '$1 == "MemTotal:" { print $2 }' /proc/meminfo 2>/dev/null)"

there git && fact git "$(git --version 2>/dev/null | awk '{ print $3 }')"
there iptables && fact iptables yes
if there curl || there wget; then fact fetch yes; fi
if there docker; then
  fact docker_client "$(docker --version 2>/dev/null | awk '{ sub(",", "", $3); print $3 }')"
  fact docker "$(timeout 10 docker version --format '{{.Server.Version}}' 2>/dev/null)"
fi
[ -S /var/run/docker.sock ] && fact docker_socket yes

# Only root can read whose agent was installed here.
fact agent_server "$(sed -n 's/.*"server_id" *: *"\([0-9a-f-]*\)".*/\1/p' /var/lib/setpoint/agent/identity.json 2>/dev/null)"
# It removes itself now. The unit is seen by every user.
if [ -e /var/lib/setpoint/agent/uninstall ] || systemctl is-active --quiet setpoint-agent-uninstall.service 2>/dev/null; then
  fact agent_leaves yes
fi

# Ports on which something listens, in hexadecimal, from the kernel's own tables.
listening=$(awk '$4 == "0A" { n = split($2, part, ":"); print part[n] }' /proc/net/tcp /proc/net/tcp6 2>/dev/null | sort -u)
for port in 0050:80 01BB:443; do
  case " $(printf '%s' "$listening" | tr '\n' ' ') " in
    *" ${port%:*} "*) fact "port_${port#*:}" taken ;;
    *) fact "port_${port#*:}" free ;;
  esac
done
