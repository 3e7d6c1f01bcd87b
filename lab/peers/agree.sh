#!/usr/bin/env bash
# Makes a small synthetic install and its GGUF, and asks both engines the same (agree.mjs).
#
#   lab/peers/agree.sh [--preset qwen3.6-35b-a3b] [--layers 4] [--bits 4] [--head-bits 8]
#       [--tokens 12] [--dir DIR] [-- ARGUMENTS OF agree.mjs]
#
# Everything is made in a folder of its own in --dir (TMPDIR, else /tmp) and removed. Four layers are the
# fewest with one of attention, without which llama.cpp does not start.
# Needs `make`, `make -C lab/peers`, and `npm install` in lab/peers.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
bench=build/bin/TinyTitanBench preset=qwen3.6-35b-a3b layers=4 bits=4 head=8 tokens=12 dir=${TMPDIR:-/tmp}
while [ $# -gt 0 ]; do
    case $1 in
    --preset) preset=$2 ;;
    --layers) layers=$2 ;;
    --bits) bits=$2 ;;
    --head-bits) head=$2 ;;
    --tokens) tokens=$2 ;;
    --dir) dir=$2 ;;
    --bench) bench=$2 ;;
    --) shift; break ;;
    *) echo "agree.sh: unknown option $1" >&2; exit 2 ;;
    esac
    shift 2
done
[ "$head" = 4 ] || [ "$head" = 8 ] || { echo "agree.sh: --head-bits is 4 or 8" >&2; exit 2; }
work=$(mktemp -d "$dir/tinytitan-agree.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
"$bench" synth --preset "$preset" --layers "$layers" --bits "$bits" --head-bits "$head" \
    --output "$work/m.gturbo" --quiet
build/lab/gguf_write "$work/m.gturbo" "$work/m.gguf" "q${head}_0" 2>"$work/err" || { cat "$work/err" >&2; exit 1; }
"$bench" chain --model "$work/m.gturbo" --tokens "$tokens" >"$work/ids.json"
"$bench" logits --model "$work/m.gturbo" --ids "$work/ids.json" --output "$work/ours.safetensors" >/dev/null
node lab/peers/agree.mjs "$work/m.gguf" "$work/ids.json" "$work/ours.safetensors" "$@"
