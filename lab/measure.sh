# shellcheck shell=bash disable=SC2154
# What the scripts of lab/ that compare speeds have in common; sourced by them, from the root of the tree.
# They set: bench, machine, csv, runs, label (NAME of the install in results; else its model id), work.
export LC_ALL=C.UTF-8

# Says what is wrong and ends.
refuse() {
    echo "$(basename "$0"): $*" >&2
    exit 2
}

# The options that all of them have.
common_option() { # OPTION [VALUE]...
    case $1 in
    --model | --rounds | --tokens | --label | --machine | --csv | --runs | --bench) ;;
    *) refuse "unknown option $1" ;;
    esac
    [ $# -ge 2 ] || refuse "$1 needs a value"
    printf -v "${1#--}" %s "$2"
}

# Two at a time would measure each other. Makes $work, removed at the end together with what still runs.
begin_measuring() {
    exec 9>/tmp/tinytitan-lab.lock
    flock -n 9 || refuse "another one is measuring"
    work=$(mktemp -d)
    child='' voids=0
    trap end_measuring EXIT
    trap 'exit 1' INT TERM HUP
    if [ -n "$runs" ]; then exec 3>>"$runs"; else exec 3>&1; fi
}

end_measuring() {
    [ -z "$child" ] || kill -KILL "$child" 2>/dev/null || true
    rm -rf "$work"
}

# Runs a command to its end, its output in $work/out. A command that fails is void: it says nothing
# about speed.
measured() {
    local rc=0
    "$@" >"$work/out" 2>"$work/err" 9>&- &
    child=$!
    wait "$child" || rc=$? # a signal ends the wait
    child=''
    [ $rc -eq 0 ] || void "ended with $rc: $*" "$(tail -n 8 "$work/err")"
}

void() {
    voids=$((voids + 1))
    printf '%s\n' "$(basename "$0"): void: $1" "${@:2}" >&2
    return 1
}

# What TinyTitanBench said last: FIELD... of every run but the first, which reads what later ones find
# in memory; a line a run, commas between. Void when they still waited for experts.
kept_runs() {
    tail -n 1 "$work/out" >"$work/last"
    jq -e '[.run_details[1:][] | select(.expert_hit_rate < 1)] | length == 0' "$work/last" >/dev/null ||
        { void "experts were read in runs that were to find them in memory: give more --budget"; return 1; }
    jq -r --args '.run_details[1:][] | . as $d | [$ARGS.positional[] | $d[.] // ""] | join(",")' "$@" <"$work/last"
}

# Of a column of numbers: median,least,most
spread() {
    sort -g | awk '{ x[NR] = $1 } END { if (NR) printf "%.7g,%.7g,%.7g\n",
        (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2, x[1], x[NR] }'
}

median() { spread | cut -d, -f1; }

# Numbers on standard input become a line of $csv in the form of docs/bench.md.
result() { # level threads bench args unit note
    local numbers
    numbers=$(spread)
    if [ -z "$csv" ] || [ -z "$numbers" ]; then return; fi
    printf '%s,%s,%s,%s,%s,%s,%s,"%s",%s,%s,"%s"\n' "$(date +%F)" "$(git rev-parse --short HEAD)" "$machine" \
        "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$1" "$2" "$3" "$4" "$numbers" "$5" "$6" \
        >>"$csv"
}

field() { jq -r ".$1" "$work/last"; } # of what TinyTitanBench said last
