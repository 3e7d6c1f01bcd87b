#!/usr/bin/env bash
# What budgets.sh measured against the bound of docs/bench.md, medians over rounds:
#
#   lab/streaming/bound.sh BUDGETS.csv BYTES_PER_SECOND
#
# Runs in which every expert was in memory (budgets.sh --cached: hit rate 1) give A and E; they are
# not compared themselves. R is the bytes that a token of a run read over BYTES_PER_SECOND, what the disk
# was held to. With sums over layers in place of each layer the bound is never lower: a sum of maxima
# is not below the maximum of the sums.
set -eu
export LC_ALL=C
awk -F, -v rate="$2" '
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
NR == 1 { next }
$3 == "failed" { print "failed: " $0; next }
$5 == 1 { a[++cached] = $6; e[cached] = $7; all[cached] = $4; next }
{ if (!($2 in count)) order[++budgets] = $2
  n = ++count[$2]; for (f = 3; f <= NF; f++) value[$2, n, f] = $f
  if ($15 > most[$2]) most[$2] = $15
  failures[$2] += $16 }
END {
    if (!cached) { print "no run had every expert in memory: budgets.sh --cached" > "/dev/stderr"; exit 1 }
    A = median(a, cached); E = median(e, cached)
    printf "A %.4f s, E %.4f s a token, all in memory %.2f tokens/s, %d runs\n", A, E, median(all, cached), cached
    print "budget,slots,rounds,tokens_per_second,min,max,hit_rate,MB_per_token,bound,share,cgroup_max,failcnt"
    for (k = 1; k <= budgets; k++) {
        b = order[k]; low = 1e9; high = 0
        for (i = 1; i <= count[b]; i++) {
            v = value[b, i, 4] + 0; if (v < low) low = v; if (v > high) high = v
        }
        h = column(b, 5); R = column(b, 9) / rate; rate_b = column(b, 4)
        bound = 1 / (A + (E * h > R ? E * h : R) + E * (1 - h))
        printf "%s,%d,%d,%.3f,%.3f,%.3f,%.4f,%.1f,%.3f,%.3f,%.0f,%d\n", b, column(b, 3), count[b],
            rate_b, low, high, h, column(b, 9) / 1e6, bound, rate_b / bound, most[b], failures[b]
    }
}' "$1"
