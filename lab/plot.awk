# A plot of lines as SVG, from lines "series,x,y" on standard input:
#
#   awk -F, -f lab/plot.awk -v title=T -v xname=X -v yname=Y [-v top=YMAX] POINTS.csv >PLOT.svg
#
# x grows from left to right by value, y from zero.
function nice(v,   p) { # the next of 1, 2, 5 times a power of ten
    for (p = 1; p < v; p *= 10) ;
    while (p > v) p /= 10
    return v <= p ? p : v <= 2 * p ? 2 * p : v <= 5 * p ? 5 * p : 10 * p
}
function px(x) { return 70 + (x - xmin) / (xmax - xmin) * 540 }
function py(y) { return 320 - y / ymax * 260 }
/^#/ || NF < 3 { next }
{
    if (!($1 in seen)) { seen[$1] = ++n; name[n] = $1 }
    s = seen[$1]; k = ++count[s]; x[s, k] = $2 + 0; y[s, k] = $3 + 0
    if (!points++ || $2 + 0 < xmin) xmin = $2 + 0
    if (points == 1 || $2 + 0 > xmax) xmax = $2 + 0
    if ($3 + 0 > ymost) ymost = $3 + 0
    if (!($2 in tick)) { tick[$2] = 1; ticks[++nt] = $2 }
}
END {
    split("#1f5fa8 #c4501b #2c8a4b #7a4aa0 #666666", color, " ")
    ymax = top > 0 ? top : nice(ymost)
    if (xmax == xmin) xmax = xmin + 1
    print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 380\" font-family=\"sans-serif\" font-size=\"12\">"
    print "<rect width=\"640\" height=\"380\" fill=\"#ffffff\"/>"
    printf "<text x=\"70\" y=\"24\" font-size=\"15\">%s</text>\n", title
    for (i = 0; i <= 5; i++) {
        v = ymax * i / 5
        printf "<line x1=\"70\" x2=\"610\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#dddddd\"/>\n", py(v), py(v)
        printf "<text x=\"62\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", py(v) + 4, v
    }
    last = -100
    for (i = 1; i <= nt; i++) # a label only where it does not cover the one before
        if (px(ticks[i]) - last > 28) {
            last = px(ticks[i])
            printf "<text x=\"%.1f\" y=\"338\" text-anchor=\"middle\">%s</text>\n", last, ticks[i]
        }
    printf "<text x=\"340\" y=\"360\" text-anchor=\"middle\">%s</text>\n", xname
    printf "<text x=\"18\" y=\"190\" text-anchor=\"middle\" transform=\"rotate(-90 18 190)\">%s</text>\n", yname
    for (s = 1; s <= n; s++) {
        printf "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", color[(s - 1) % 5 + 1]
        for (k = 1; k <= count[s]; k++) printf "%.1f,%.1f ", px(x[s, k]), py(y[s, k])
        print "\"/>"
        for (k = 1; k <= count[s]; k++)
            printf "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", px(x[s, k]), py(y[s, k]), color[(s - 1) % 5 + 1]
        printf "<text x=\"80\" y=\"%d\" fill=\"%s\">%s</text>\n", 44 + 16 * (s - 1), color[(s - 1) % 5 + 1], name[s]
    }
    print "</svg>"
}
