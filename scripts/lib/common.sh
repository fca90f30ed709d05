# Shared by the scripts of this folder, which source it: where dependencies live, building, and how to give up.

export TRIBUTARY_DEPS="${TRIBUTARY_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/tributary}"
# Tools that set-up puts into the dependency folder (promtool).
export PATH="$PATH:$TRIBUTARY_DEPS/bin"

fail() {
  echo "${0##*/}: $*" >&2
  exit 1
}

build_preset() {  # PRESET [TARGET...]: configures and builds, from the sources' root, with ninja's own progress
  local preset="$1" log started=$SECONDS
  shift
  log="$(mktemp)"
  if ! (cd "$root" && cmake --preset "$preset" -DTRIBUTARY_DEPS="$TRIBUTARY_DEPS" >"$log" 2>&1); then
    cat "$log" >&2
    rm -f "$log"
    fail "configuring the $preset preset failed (see above)."
  fi
  rm -f "$log"
  (cd "$root" && cmake --build --preset "$preset" ${1:+--target "$@"}) || fail "the $preset build failed (see above)."
  echo "Built the $preset preset in $((SECONDS - started)) s."
}

python_messages() {  # FOLDER: the contract's messages as Python modules
  mkdir -p "$1"
  protoc --proto_path="$root/proto" --proto_path="$TRIBUTARY_DEPS/protos" --python_out="$1" \
    "$root/proto/tributary/v1/embedding_service.proto" "$TRIBUTARY_DEPS/protos/google/rpc/status.proto"
}
