#!/usr/bin/env bash
# Conversion of one checkpoint against what bounds it, interleaved:
#
#   TinyTitanBench synth --preset qwen3.6-35b-a3b --as checkpoint --layers 20 --output SNAPSHOT
#   make -C lab/repack && lab/repack/rate.sh --input SNAPSHOT --output DIR [--rounds 3]
#       [--sample 2G] [--threads N] [--keep-cache] [--csv FILE]
#
# DIR is a folder on the disk that is written to; what is made there is removed. In each round the
# page cache is dropped before the reads R and before the conversion; R and W are --sample bytes read
# from the checkpoint and written to DIR, synced; Q is bf16 quantized to 4 bits in memory by as many
# threads, with the SHA-256 of the result. All three are measured before and after the conversion and
# added up. limit = the lower of Q and source / (source / R + output / W); share = rate / limit, which
# is to be 0.8. Peak memory is that of the converting process. Needs root for the page cache, which
# --keep-cache leaves alone: a trial of the script, no measurement.
set -eu
export LC_ALL=C.UTF-8
repack=build/bin/TinyTitanRepack limits=build/lab/repack_limits input='' output='' rounds=3 sample=2G
threads=$(lscpu -p=CORE | grep -vc '^#') csv=/dev/stdout
keep=0
while [ $# -gt 0 ]; do
    case $1 in
    --input) input=$2 ;;
    --output) output=$2 ;;
    --rounds) rounds=$2 ;;
    --sample) sample=$2 ;;
    --threads) threads=$2 ;;
    --csv) csv=$2 ;;
    --repack) repack=$2 ;;
    --keep-cache) keep=1; shift; continue ;;
    *) echo "rate.sh: unknown option $1" >&2; exit 2 ;;
    esac
    shift 2
done
[ -n "$input" ] && [ -n "$output" ] || { echo "rate.sh: --input and --output are needed" >&2; exit 2; }
[ -x "$limits" ] || { echo "rate.sh: $limits is not there: make -C lab/repack" >&2; exit 2; }
sample=$(numfmt --from=iec "$sample")
shards=("$input"/*.safetensors)
source=$(stat -c %s "${shards[@]}" | awk '{ s += $1 } END { printf "%.0f", s }')
mkdir -p "$output"
install=$output/rate.$$.gturbo piece=$output/rate.$$.piece
trap 'rm -rf "$install" "$install.partial" "$piece"' EXIT

drop() { sync; [ "$keep" = 1 ] || echo 3 >/proc/sys/vm/drop_caches; }

# Adds BYTES SECONDS of one more look at each bound to r, w and q.
look() {
    local k first=$((RANDOM % ${#shards[@]})) order
    order=("${shards[@]:first}" "${shards[@]:0:first}")
    drop
    r+=$("$limits" read "$sample" "${order[@]}")$'\n'
    w+=$("$limits" write "$sample" "$piece")$'\n'
    q+=$("$limits" quantize "$sample" "$threads")$'\n'
}
rate() { awk 'NF == 2 { b += $1; s += $2 } END { printf "%.0f", b / s }' <<<"$1"; }

echo 'round,source_bytes,output_bytes,read_Bps,write_Bps,quantize_Bps,seconds,rate_Bps,limit_Bps,share,peak_rss_bytes' >"$csv"
for round in $(seq "$rounds"); do
    r='' w='' q=''
    look
    drop
    read -r rss seconds < <("$limits" run "$repack" --input-snapshot "$input" --output "$install" \
        --threads "$threads" --model-id rate --quiet)
    [ -d "$install" ] || { echo "rate.sh: the conversion failed" >&2; exit 1; }
    written=$(du -sb --apparent-size "$install" | cut -f 1)
    rm -rf "$install"
    look
    awk -v round="$round" -v src="$source" -v out="$written" -v R="$(rate "$r")" -v W="$(rate "$w")" \
        -v Q="$(rate "$q")" -v s="$seconds" -v rss="$rss" 'BEGIN {
        rate = src / s
        limit = src / (src / R + out / W)
        if (Q < limit) limit = Q
        printf "%d,%.0f,%.0f,%.0f,%.0f,%.0f,%.3f,%.0f,%.0f,%.3f,%.0f\n", round, src, out, R, W, Q, s, rate,
            limit, rate / limit, rss
    }' >>"$csv"
done
