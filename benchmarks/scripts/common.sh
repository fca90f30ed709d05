# shellcheck shell=bash
# shellcheck disable=SC2034 # what the scripts read
# For the load-test scripts: arguments, the program, one run. Sourced, not run.
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
target=""
metrics=""
out="$root/build/load"
minutes=10

usage() {
  sed -n '2,/^set /{s/^# \{0,1\}//;/^set /!p}' "$0" >&2
  echo "usage: $(basename "$0") --target HOST:PORT [--metrics HOST:PORT] [--out FOLDER] [-- FLAGS OF tributary-bench]" >&2
  exit 2
}

while (($#)); do
  case "$1" in
    --target) target="${2:-}"; shift 2 || usage ;;
    --metrics) metrics="${2:-}"; shift 2 || usage ;;
    --out) out="${2:-}"; shift 2 || usage ;;
    --minutes) minutes="${2:-}"; shift 2 || usage ;;
    --) shift; break ;;
    *) usage ;;
  esac
done
[[ -n "$target" ]] || usage
extra=("$@")

bench="${TRIBUTARY_BENCH:-}"
for candidate in "$root/build/release/benchmarks/tributary-bench" "$root/build/dev/benchmarks/tributary-bench"; do
  [[ -n "$bench" ]] || { [[ -x "$candidate" ]] && bench="$candidate"; }
done
[[ -x "$bench" ]] || { echo "no tributary-bench: build it, or name it in TRIBUTARY_BENCH" >&2; exit 2; }
mkdir -p "$out"

# run NAME FLAG...: one run, its JSON in $out/NAME.json.
run() {
  local name="$1"
  shift
  echo "== $name"
  "$bench" --target="$target" --metrics-url="$metrics" --json="$out/$name.json" "$@" "${extra[@]}"
}
