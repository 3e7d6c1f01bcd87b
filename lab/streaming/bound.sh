#!/usr/bin/env bash
# What budgets.sh measured against the bound of docs/bench.md, medians over rounds:
#
#   lab/streaming/bound.sh BUDGETS.csv CACHED.csv BYTES_PER_SECOND
#
# CACHED.csv is a run of budgets.sh in which every expert was in memory (hit rate 1): A and E come
# from it. R is the bytes a token read over BYTES_PER_SECOND, the rate that the disk was held to.
# With sums over layers in place of each layer the bound is never lower: a sum of maxima is not below
# the maximum of the sums.
set -eu
export LC_ALL=C
awk -F, -v rate="$3" '
function median(list, n,   i, j, t) {
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && list[j] < list[j - 1]; j--) { t = list[j]; list[j] = list[j - 1]; list[j - 1] = t }
    return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
}
function column(budget, field,   i, n, list) {
    for (i = 1; i <= count[budget]; i++) list[++n] = value[budget, i, field]
    return median(list, n)
}
{ gsub(/"/, "") }
FNR == 1 { file++; next }
$3 == "failed" { print "failed: " $0; next }
file == 2 { if ($5 != 1) { print "CACHED.csv has a hit rate of " $5 > "/dev/stderr"; bad = 1 }
            a[++cached] = $6; e[cached] = $7; next }
{ if (!($2 in count)) order[++budgets] = $2
  n = ++count[$2]; for (f = 3; f <= NF; f++) value[$2, n, f] = $f
  if ($15 > most[$2]) most[$2] = $15
  failures[$2] += $16 }
END {
    if (bad || !cached) exit 1
    A = median(a, cached); E = median(e, cached)
    printf "A %.4f s, E %.4f s a token\n", A, E
    print "budget,slots,rounds,tokens_per_second,min,max,hit_rate,MB_per_token,bound,share,cgroup_max,failcnt"
    for (k = 1; k <= budgets; k++) {
        b = order[k]; low = 1e9; high = 0
        for (i = 1; i <= count[b]; i++) {
            v = value[b, i, 4] + 0; if (v < low) low = v; if (v > high) high = v
        }
        h = column(b, 5); R = column(b, 9) / rate; rate_b = column(b, 4)
        bound = 1 / (A + (E * h > R ? E * h : R) + E * (1 - h))
        printf "%s,%d,%d,%.3f,%.3f,%.3f,%.4f,%.1f,%.3f,%.3f,%.0f,%d\n", b, column(b, 3), count[b], rate_b,
            low, high, h, column(b, 9) / 1e6, bound, rate_b / bound, most[b], failures[b]
    }
}' "$1" "$2"
