#!/usr/bin/env bash
# Installs the Debian packages that building and running Gantry need. Prints which, and why; installed ones are left alone.
set -euo pipefail

wanted=(
  "gcc|gcc|links the binary and compiles the cryptography library"
  "libc6-dev|/usr/include/stdio.h|headers for the above"
  "cmake|cmake|builds the cryptography library"
  "containerd|containerd|runs the containers"
  "runc|runc|starts a container's processes"
  "containernetworking-plugins|/usr/lib/cni/ptp|gives each pod its network interface"
  "nftables|nft|forwards a Service's address to its pods"
  "conntrack|conntrack|forgets UDP flows to pods that ended"
  "iptables|iptables|maps a pod's host ports"
  "iproute2|ip|makes the node's links"
)

present() { # a command's name, or the path of a file
  case "$1" in
    /*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] ;;
  esac
}

missing=()
for entry in "${wanted[@]}"; do
  IFS='|' read -r package proof why <<<"$entry"
  present "$proof" || { printf 'package %-28s %s\n' "$package" "$why"; missing+=("$package"); }
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -ne 0 ]; then
  echo "error: installing packages needs root: run as root, or: apt-get install ${missing[*]}" >&2
  exit 2
fi
export DEBIAN_FRONTEND=noninteractive
# Debian's containerd package starts a service of its own; Gantry runs a separate one and needs none.
policy=/usr/sbin/policy-rc.d
made_policy=
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 0755 "$policy" && made_policy=1
fi
trap '[ -z "$made_policy" ] || rm -f "$policy"' EXIT
log=$(mktemp)
if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "error: apt-get could not install: ${missing[*]}" >&2
  exit 2
fi
rm -f "$log"
echo "installed: ${missing[*]}"
