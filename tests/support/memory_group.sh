# A memory group of cgroup v1 for a test; needs testlib.sh. Skips the test where none can be made.
#
#   memory_group NAME        makes $group, below the group that the test is in; removed at the end
#   empty_group              makes it anew: counters at 0, no limit
#   in_group CMD...          runs CMD in it (exec; for use in a subshell or in the background)
#   group_says FILE          what a file of it holds, such as memory.max_usage_in_bytes

memory_group() {
    local base=/sys/fs/cgroup/memory own
    [ -w $base/cgroup.procs ] || skip "no memory group of cgroup v1 can be made here ($base)"
    own=$base/$(awk -F: '$2 ~ /(^|,)memory(,|$)/ {print $3}' /proc/self/cgroup)
    [ -w "$own/cgroup.procs" ] || own=$base
    group=$own/tinytitan-$1-$$
    mkdir "$group" 2>/dev/null || skip "no memory group can be made below $own"
    trap 'rmdir "$group" 2>/dev/null' EXIT
    [ -r "$group/memory.max_usage_in_bytes" ] || skip "$group has no counters"
}

empty_group() {
    echo 0 >"$group/memory.force_empty" 2>/dev/null
    rmdir "$group" && mkdir "$group" || fail "$group cannot be made anew"
}

in_group() { exec bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@"; }

group_says() { cat "$group/$1"; }
