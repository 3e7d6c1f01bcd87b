#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/limits.h"

/* jansson's own depth limit is 2048; ours is checked first so that hostile nesting costs one scan.
 */
static bool too_deep(const char *text, size_t len, uint32_t most, size_t *where)
{
    size_t depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > most) {
                *where = i;
                return true;
            }
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
    return false;
}

/* ---- whole numbers that 64 bits do not hold ----
 *
 * jansson refuses them, or reads every whole number as a double. Here those alone become doubles: a
 * fraction of zero is put behind them on their way to jansson. */

#define POINT     ".0"
#define POINT_LEN 2u

/* Whether the digits from `digits` on are more than an int64_t. */
static bool is_large(bool negative, const char *digits, size_t n)
{
    const char *most = negative ? "9223372036854775808" : "9223372036854775807";
    return n > 19 || (n == 19 && memcmp(digits, most, 19) > 0);
}

/* The end of the next such number from `p` on, which is outside of strings; NULL if there is none.
 */
static const char *next_large(const char *p, const char *end)
{
    bool in_string = false;
    while (p < end) {
        char c = *p++;
        if (in_string && c == '\\')
            p++;
        else if (c == '"')
            in_string = !in_string;
        if (in_string || ((c < '0' || c > '9') && c != '-'))
            continue;
        const char *digits = c == '-' ? p : p - 1;
        for (p = digits; p < end && *p >= '0' && *p <= '9';)
            p++;
        bool whole = p == end || (*p != '.' && *p != 'e' && *p != 'E');
        if (whole && is_large(c == '-', digits, (size_t)(p - digits)))
            return p;
        /* The digits of a fraction or an exponent are none of a whole number. */
        while (!whole && p < end && strchr("+-.0123456789Ee", *p) != NULL)
            p++;
    }
    return NULL;
}

/* What stood at byte `at` of the text that jansson was given. */
static int64_t place_of(const char *text, size_t len, int64_t at)
{
    const char *p = text;
    while ((p = next_large(p, text + len)) != NULL && p - text < at)
        at -= POINT_LEN;
    return at;
}

typedef struct source {
    const char *p, *large, *end; /* what is left, the next large number in it */
    bool (*stop)(void);
} source;

/* jansson asks for a kilobyte at a time. */
static size_t read_source(void *to, size_t n, void *ctx)
{
    source *s = ctx;
    if (s->stop != NULL && s->stop())
        return 0;
    if (s->p == s->large) {
        s->large = next_large(s->p, s->end);
        memcpy(to, POINT, POINT_LEN);
        return POINT_LEN;
    }
    size_t left = (size_t)((s->large != NULL ? s->large : s->end) - s->p);
    n = n < left ? n : left;
    memcpy(to, s->p, n);
    s->p += n;
    return n;
}

tt_status tt_json_parse_until(const char *text, size_t len, uint32_t depth, const char *file,
                              bool (*stop)(void), json_t **out, tt_error *err)
{
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL;
    size_t where = 0;
    if (too_deep(text, len, depth, &where))
        return tt_fail_at(err, TT_ERR_LIMIT, file, (int64_t)where,
                          "JSON nests deeper than %u levels", depth);
    /* jansson takes a NUL byte for the end and would not look at what follows. */
    const char *nul = len > 0 ? memchr(text, '\0', len) : NULL;
    if (nul != NULL)
        return tt_fail_at(err, TT_ERR_FORMAT, file, nul - text,
                          "broken JSON: a NUL byte at offset %td", nul - text);
    source s = {text, next_large(text, text + len), text + len, stop};
    json_error_t je;
    json_t *tree = json_load_callback(read_source, &s, flags, &je);
    if (tree == NULL && stop != NULL && stop())
        return tt_fail_at(err, TT_ERR_NOMEM, file, -1, "no memory for the JSON");
    if (tree == NULL)
        return tt_fail_at(err, TT_ERR_FORMAT, file, place_of(text, len, je.position),
                          "broken JSON at line %d, column %d: %s", je.line, je.column, je.text);
    *out = tree;
    return TT_OK;
}

tt_status tt_json_parse_deep(const char *text, size_t len, uint32_t depth, const char *file,
                             json_t **out, tt_error *err)
{
    return tt_json_parse_until(text, len, depth, file, NULL, out, err);
}

tt_status tt_json_parse(const char *text, size_t len, const char *file, json_t **out, tt_error *err)
{
    return tt_json_parse_deep(text, len, TT_MAX_JSON_DEPTH, file, out, err);
}

tt_status tt_json_load(const char *path, size_t max, json_t **out, tt_error *err)
{
    char *text = NULL;
    size_t len = 0;
    TT_TRY(tt_file_read(path, max, &text, &len, err));
    tt_status st = tt_json_parse(text, len, path, out, err);
    free(text);
    return st;
}

static tt_status wrong(const char *file, const char *key, const char *want, tt_error *err)
{
    return tt_fail_at(err, TT_ERR_FORMAT, file, -1, "key \"%s\" must be %s", key, want);
}

static tt_status need(const json_t *obj, const char *key, const char *file, json_t **v,
                      tt_error *err)
{
    *v = json_object_get(obj, key);
    if (*v == NULL)
        return tt_fail_at(err, TT_ERR_FORMAT, file, -1, "key \"%s\" is missing", key);
    return TT_OK;
}

static bool absent(const json_t *obj, const char *key)
{
    const json_t *v = json_object_get(obj, key);
    return v == NULL || json_is_null(v);
}

tt_status tt_json_get_object(const json_t *obj, const char *key, const char *file, json_t **out,
                             tt_error *err)
{
    json_t *v;
    TT_TRY(need(obj, key, file, &v, err));
    if (!json_is_object(v))
        return wrong(file, key, "an object", err);
    *out = v;
    return TT_OK;
}

tt_status tt_json_get_array(const json_t *obj, const char *key, const char *file, json_t **out,
                            tt_error *err)
{
    json_t *v;
    TT_TRY(need(obj, key, file, &v, err));
    if (!json_is_array(v))
        return wrong(file, key, "an array", err);
    *out = v;
    return TT_OK;
}

tt_status tt_json_get_string(const json_t *obj, const char *key, const char *file, const char **out,
                             tt_error *err)
{
    json_t *v;
    TT_TRY(need(obj, key, file, &v, err));
    if (!json_is_string(v))
        return wrong(file, key, "a string", err);
    if (strlen(json_string_value(v)) != json_string_length(v))
        return wrong(file, key, "a string without NUL", err);
    *out = json_string_value(v);
    return TT_OK;
}

tt_status tt_json_get_u64(const json_t *obj, const char *key, const char *file, uint64_t min,
                          uint64_t max, uint64_t *out, tt_error *err)
{
    json_t *v;
    TT_TRY(need(obj, key, file, &v, err));
    if (!json_is_integer(v))
        return wrong(file, key, "an integer", err);
    json_int_t i = json_integer_value(v);
    if (i < 0 || (uint64_t)i < min || (uint64_t)i > max)
        return tt_fail_at(err, TT_ERR_LIMIT, file, -1, "key \"%s\" is %lld, must be %llu to %llu",
                          key, (long long)i, (unsigned long long)min, (unsigned long long)max);
    *out = (uint64_t)i;
    return TT_OK;
}

tt_status tt_json_get_u32(const json_t *obj, const char *key, const char *file, uint32_t min,
                          uint32_t max, uint32_t *out, tt_error *err)
{
    uint64_t v = 0;
    TT_TRY(tt_json_get_u64(obj, key, file, min, max, &v, err));
    *out = (uint32_t)v;
    return TT_OK;
}

tt_status tt_json_get_number(const json_t *obj, const char *key, const char *file, double min,
                             double max, double *out, tt_error *err)
{
    json_t *v;
    TT_TRY(need(obj, key, file, &v, err));
    if (!json_is_number(v))
        return wrong(file, key, "a number", err);
    double d = json_number_value(v);
    if (!isfinite(d) || d < min || d > max)
        return tt_fail_at(err, TT_ERR_LIMIT, file, -1, "key \"%s\" is %g, must be %g to %g", key, d,
                          min, max);
    *out = d;
    return TT_OK;
}

tt_status tt_json_get_bool(const json_t *obj, const char *key, const char *file, bool *out,
                           tt_error *err)
{
    json_t *v;
    TT_TRY(need(obj, key, file, &v, err));
    if (!json_is_boolean(v))
        return wrong(file, key, "true or false", err);
    *out = json_is_true(v);
    return TT_OK;
}

tt_status tt_json_opt_u32(const json_t *obj, const char *key, const char *file, uint32_t min,
                          uint32_t max, uint32_t *out, tt_error *err)
{
    return absent(obj, key) ? TT_OK : tt_json_get_u32(obj, key, file, min, max, out, err);
}

tt_status tt_json_opt_number(const json_t *obj, const char *key, const char *file, double min,
                             double max, double *out, tt_error *err)
{
    return absent(obj, key) ? TT_OK : tt_json_get_number(obj, key, file, min, max, out, err);
}

tt_status tt_json_opt_bool(const json_t *obj, const char *key, const char *file, bool *out,
                           tt_error *err)
{
    return absent(obj, key) ? TT_OK : tt_json_get_bool(obj, key, file, out, err);
}

tt_status tt_json_opt_string(const json_t *obj, const char *key, const char *file, const char **out,
                             tt_error *err)
{
    return absent(obj, key) ? TT_OK : tt_json_get_string(obj, key, file, out, err);
}
