#include "base/args.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

#define COLUMNS     100
#define HELP_COLUMN 30
#define LONGEST     48 /* bytes of a word that is compared with others */

/* ---- suggestions ---- */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Edits (insert, delete, replace, swap neighbours) between two words. */
static size_t distance(const char *a, const char *b)
{
    size_t la = strlen(a), lb = strlen(b);
    if (la > LONGEST || lb > LONGEST)
        return SIZE_MAX;
    size_t d[3][LONGEST + 1];
    for (size_t j = 0; j <= lb; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t *now = d[i % 3], *prev = d[(i + 2) % 3], *prev2 = d[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            now[j] = least(least(prev[j], now[j - 1]) + 1, prev[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], prev2[j - 2] + 1);
        }
    }
    return d[la % 3][lb];
}

/* Keeps the better of two suggestions; a beginning of a word counts as one edit. */
static void consider(const char *text, const char *word, const char **best, size_t *best_distance)
{
    size_t len = strlen(text), d = distance(text, word);
    if (len >= 3 && strncmp(text, word, len) == 0)
        d = least(d, 1);
    if (d < len && d <= least(1 + len / 4, 3) && d < *best_distance) {
        *best = word;
        *best_distance = d;
    }
}

const char *tt_args_nearest(const char *text, const char *const *words)
{
    const char *best = NULL;
    size_t best_distance = SIZE_MAX;
    for (; *words != NULL; words++)
        consider(text, *words, &best, &best_distance);
    return best;
}

static bool is_option(const tt_arg *a)
{
    return a->type != TT_ARG_END && a->type != TT_ARG_HEADING;
}

static tt_arg *find(tt_arg *table, const char *name, size_t len)
{
    for (; table->type != TT_ARG_END; table++)
        if (is_option(table) && strlen(table->name) == len && memcmp(table->name, name, len) == 0)
            return table;
    return NULL;
}

static tt_status unknown(const tt_arg *table, const char *arg, size_t len, tt_error *err)
{
    char name[LONGEST + 1];
    const char *best = NULL;
    size_t best_distance = SIZE_MAX, dashes = strspn(arg, "-");
    snprintf(name, sizeof name, "%.*s", (int)(len - least(len, dashes)), arg + least(len, dashes));
    for (; table->type != TT_ARG_END; table++)
        if (is_option(table))
            consider(name, table->name, &best, &best_distance);
    if (best != NULL)
        return tt_fail(err, TT_ERR_INVALID, "unknown option %.*s; did you mean --%s?", (int)len,
                       arg, best);
    return tt_fail(err, TT_ERR_INVALID, "unknown option %.*s; --help lists the options", (int)len,
                   arg);
}

/* ---- values ---- */

/* Decimal digits and nothing else. */
static bool whole_number(const char *text, uint64_t *out)
{
    uint64_t v = 0;
    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(v, (uint64_t)10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*text - '0'), &v))
            return false;
    }
    *out = v;
    return true;
}

static uint64_t upper_bound(const tt_arg *a)
{
    if (a->max != 0)
        return a->max;
    return a->type == TT_ARG_U32 ? UINT32_MAX : UINT64_MAX;
}

static tt_status read_integer(const tt_arg *a, const char *text, tt_error *err)
{
    uint64_t v = 0;
    if (!whole_number(text, &v) || v < a->min || v > upper_bound(a))
        return tt_fail(err, TT_ERR_INVALID,
                       "--%s is \"%s\", must be a whole number from %llu to %llu", a->name, text,
                       (unsigned long long)a->min, (unsigned long long)upper_bound(a));
    if (a->type == TT_ARG_U32)
        *a->out.u32 = (uint32_t)v;
    else
        *a->out.u64 = v;
    return TT_OK;
}

/* Power of 1024 of a unit, or -1. */
static int unit_power(const char *unit)
{
    static const char letters[] = "KMGT";
    if (*unit == '\0' || strcmp(unit, "B") == 0)
        return 0;
    char up = *unit >= 'a' && *unit <= 'z' ? (char)(*unit - 32) : *unit;
    const char *at = strchr(letters, up);
    if (at == NULL ||
        (unit[1] != '\0' && strcmp(unit + 1, "B") != 0 && strcmp(unit + 1, "iB") != 0))
        return -1;
    return (int)(at - letters) + 1;
}

tt_status tt_args_size(const char *text, const char *what, uint64_t *out, tt_error *err)
{
    const char *p = text;
    char digits[32];
    size_t n = strspn(p, "0123456789"), frac = 0;
    uint64_t whole = 0;
    bool ok = n > 0 && n < sizeof digits;
    if (ok) {
        memcpy(digits, p, n);
        digits[n] = '\0';
        ok = whole_number(digits, &whole);
        p += n;
    }
    double part = 0;
    if (ok && *p == '.') {
        frac = strspn(++p, "0123456789");
        ok = frac > 0;
        double scale = 1;
        for (size_t i = 0; i < frac; i++)
            part += (p[i] - '0') * (scale /= 10);
        p += frac;
    }
    int power = ok ? unit_power(p) : -1;
    uint64_t unit = power >= 0 ? (uint64_t)1 << (10 * power) : 0, bytes = 0;
    ok = power >= 0 && !(power == 0 && frac > 0) && !__builtin_mul_overflow(whole, unit, &bytes) &&
         !__builtin_add_overflow(bytes, (uint64_t)(part * (double)unit), &bytes);
    if (!ok)
        return tt_fail(err, TT_ERR_INVALID,
                       "%s is \"%s\", must be a size such as 512M, 1.5G or 16GiB", what, text);
    *out = bytes;
    return TT_OK;
}

static tt_status read_size(const tt_arg *a, const char *text, tt_error *err)
{
    char what[LONGEST + 8];
    uint64_t v = 0;
    snprintf(what, sizeof what, "--%s", a->name);
    TT_TRY(tt_args_size(text, what, &v, err));
    if (v < a->min || v > upper_bound(a))
        return tt_fail(err, TT_ERR_INVALID,
                       "--%s is \"%s\" (%llu bytes), must be %llu to %llu bytes", a->name, text,
                       (unsigned long long)v, (unsigned long long)a->min,
                       (unsigned long long)upper_bound(a));
    *a->out.u64 = v;
    return TT_OK;
}

static tt_status read_float(const tt_arg *a, const char *text, tt_error *err)
{
    char *end = NULL;
    double v = NAN;
    /* Only plain decimals: strtod alone would also take "inf", "nan" and hexadecimal. */
    if (*text != '\0' && text[strspn(text, "+-.0123456789eE")] == '\0')
        v = strtod(text, &end);
    if (end == NULL || end == text || *end != '\0' || !(v >= a->fmin && v <= a->fmax))
        return tt_fail(err, TT_ERR_INVALID, "--%s is \"%s\", must be a number from %g to %g",
                       a->name, text, a->fmin, a->fmax);
    *a->out.f32 = (float)v;
    return TT_OK;
}

static void join_choices(const tt_arg *a, const char *between, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; a->choices[i] != NULL && len < size; i++)
        len += (size_t)snprintf(out + len, size - len, "%s%s", i > 0 ? between : "", a->choices[i]);
}

static tt_status read_choice(const tt_arg *a, const char *text, tt_error *err)
{
    char all[256];
    for (int i = 0; a->choices[i] != NULL; i++) {
        if (strcmp(a->choices[i], text) == 0) {
            *a->out.choice = i;
            return TT_OK;
        }
    }
    join_choices(a, ", ", all, sizeof all);
    const char *best = tt_args_nearest(text, a->choices);
    if (best != NULL)
        return tt_fail(err, TT_ERR_INVALID, "--%s is \"%s\", must be one of %s; did you mean %s?",
                       a->name, text, all, best);
    return tt_fail(err, TT_ERR_INVALID, "--%s is \"%s\", must be one of %s", a->name, text, all);
}

static bool names_a_path(const tt_arg *a)
{
    return a->value != NULL && (strcmp(a->value, "DIR") == 0 || strncmp(a->value, "FILE", 4) == 0);
}

static tt_status read_value(tt_arg *a, const char *text, tt_error *err)
{
    switch (a->type) {
    case TT_ARG_STRING:
        if (*text == '\0' && names_a_path(a))
            return tt_fail(err, TT_ERR_INVALID, "--%s is empty, must be a %s", a->name,
                           a->value[0] == 'D' ? "folder" : "file");
        *a->out.string = text;
        return TT_OK;
    case TT_ARG_LIST:
        if (a->out.list->n == TT_ARG_LIST_MAX)
            return tt_fail(err, TT_ERR_INVALID, "--%s is given more than %u times", a->name,
                           TT_ARG_LIST_MAX);
        a->out.list->items[a->out.list->n++] = text;
        return TT_OK;
    case TT_ARG_U32:
    case TT_ARG_U64:
        return read_integer(a, text, err);
    case TT_ARG_SIZE:
        return read_size(a, text, err);
    case TT_ARG_FLOAT:
        return read_float(a, text, err);
    default:
        return read_choice(a, text, err);
    }
}

/* ---- parsing ---- */

/* The value that stands in the next word, unless that word is plainly another option. */
static tt_status next_value(tt_arg *table, const tt_arg *a, int argc, char *const *argv, int i,
                            const char **value, tt_error *err)
{
    const char *next = i + 1 < argc ? argv[i + 1] : NULL;
    if (next == NULL)
        return tt_fail(err, TT_ERR_INVALID, "--%s needs a value", a->name);
    if (strncmp(next, "--", 2) == 0 && find(table, next + 2, strcspn(next + 2, "=")) != NULL)
        return tt_fail(err, TT_ERR_INVALID,
                       "--%s needs a value before %s; write --%s=%s if that is the value", a->name,
                       next, a->name, next);
    *value = next;
    return TT_OK;
}

static tt_status check_required(const tt_arg *table, tt_error *err)
{
    for (; table->type != TT_ARG_END; table++)
        if (table->required && !table->given)
            return tt_fail(err, TT_ERR_INVALID, "--%s %s is required", table->name,
                           table->value != NULL ? table->value : "");
    return TT_OK;
}

tt_status tt_args_parse(tt_arg *table, int argc, char *const *argv, tt_error *err)
{
    bool stops = false;
    for (tt_arg *a = table; a->type != TT_ARG_END; a++)
        a->given = false;
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i];
        if (arg[0] != '-')
            return tt_fail(err, TT_ERR_INVALID, "unexpected argument \"%s\"; options start with --",
                           arg);
        size_t len = strcspn(arg, "=");
        tt_arg *a = strncmp(arg, "--", 2) == 0 && len > 2 ? find(table, arg + 2, len - 2) : NULL;
        if (a == NULL)
            return unknown(table, arg, len, err);
        if (a->given && a->type != TT_ARG_LIST)
            return tt_fail(err, TT_ERR_INVALID, "--%s is given twice", a->name);
        bool plain = a->type == TT_ARG_FLAG || a->type == TT_ARG_STOP;
        if (plain && arg[len] == '=')
            return tt_fail(err, TT_ERR_INVALID, "--%s takes no value", a->name);
        if (plain) {
            *a->out.flag = true;
        } else {
            const char *value = arg + len + 1;
            if (arg[len] != '=')
                TT_TRY(next_value(table, a, argc, argv, i++, &value, err));
            TT_TRY(read_value(a, value, err));
        }
        a->given = true;
        stops |= a->type == TT_ARG_STOP;
    }
    return stops ? TT_OK : check_required(table, err);
}

tt_status tt_args_backend(const char *backend, const char *level, tt_error *err)
{
    if (strcmp(backend, "ref") == 0 && level != NULL && strcmp(level, "auto") != 0 &&
        strcmp(level, "ref") != 0)
        return tt_fail(err, TT_ERR_INVALID,
                       "--cpu-level %s does not go with --backend ref: levels belong to --backend "
                       "cpu",
                       level);
    return TT_OK;
}

static bool in_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

void tt_args_translate(const tt_arg_name *names, tt_error *err)
{
    char out[sizeof err->message];
    size_t len = 0;
    for (const char *p = err->message; *p != '\0' && len + 1 < sizeof out;) {
        size_t n = 0;
        while (in_word(p[n]))
            n++;
        const tt_arg_name *name = names;
        while (n > 0 && name->option != NULL &&
               !(strlen(name->option) == n && memcmp(name->option, p, n) == 0))
            name++;
        size_t take = n > 0 ? n : 1, put = take;
        const char *from = p;
        if (n > 0 && name->option != NULL) {
            from = name->flag;
            put = strlen(from);
        }
        put = least(put, sizeof out - 1 - len);
        memcpy(out + len, from, put);
        len += put;
        p += take;
    }
    out[len] = '\0';
    memcpy(err->message, out, len + 1);
}

bool tt_args_given(const tt_arg *table, const char *name)
{
    for (; table->type != TT_ARG_END; table++)
        if (is_option(table) && strcmp(table->name, name) == 0)
            return table->given;
    return false;
}

/* ---- listing ---- */

/* What the type adds to the help text: the range. */
static void range_text(const tt_arg *a, char *out, size_t size)
{
    out[0] = '\0';
    if (a->type == TT_ARG_FLOAT)
        snprintf(out, size, " (%g to %g)", a->fmin, a->fmax);
    else if ((a->type == TT_ARG_U32 || a->type == TT_ARG_U64) && a->max != 0)
        snprintf(out, size, " (%llu to %llu)", (unsigned long long)a->min,
                 (unsigned long long)a->max);
    else if (a->type == TT_ARG_LIST)
        snprintf(out, size, " (may be repeated)");
}

/* Words of `text` in the help column; `at` is where the line stands now. */
static void wrap(tt_buf *out, const char *text, size_t at)
{
    bool fresh = true;
    if (at + 2 > HELP_COLUMN) {
        tt_buf_putc(out, '\n');
        at = 0;
    }
    for (; at < HELP_COLUMN; at++)
        tt_buf_putc(out, ' ');
    while (*text != '\0') {
        size_t n = strcspn(text, " ");
        if (!fresh && at + 1 + n > COLUMNS) {
            tt_buf_printf(out, "\n%*s", HELP_COLUMN, "");
            at = HELP_COLUMN;
            fresh = true;
        }
        if (!fresh)
            tt_buf_putc(out, ' ');
        tt_buf_append(out, text, n);
        at += n + !fresh;
        fresh = false;
        text += n;
        text += strspn(text, " ");
    }
    tt_buf_putc(out, '\n');
}

void tt_args_help(const tt_arg *table, tt_buf *out)
{
    for (const tt_arg *a = table; a->type != TT_ARG_END; a++) {
        if (a->type == TT_ARG_HEADING) {
            tt_buf_printf(out, "%s%s\n", a == table ? "" : "\n", a->name);
            continue;
        }
        char value[256] = "", range[64], text[1024];
        if (a->type == TT_ARG_ENUM)
            join_choices(a, "|", value, sizeof value);
        else if (a->value != NULL)
            snprintf(value, sizeof value, "%s", a->value);
        size_t before = out->len;
        tt_buf_printf(out, "  --%s%s%s", a->name, value[0] != '\0' ? " " : "", value);
        range_text(a, range, sizeof range);
        snprintf(text, sizeof text, "%s%s", a->help, range);
        wrap(out, text, out->len - before);
    }
}
