#include "tokenizer/pretokenizer.h"

#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "tokenizer/tok_utf8.h"

#define MAX_STAGES  8u     /* published files have one to four */
#define MAX_PATTERN 65536u /* bytes after rewriting; published patterns stay under 2 KiB */

/* What ByteLevel splits by when "use_regex" is true. */
static const char byte_level_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

struct tt_pretokenizer {
    pcre2_code *code[MAX_STAGES]; /* each splits the pieces of the one before */
    size_t n;
    bool byte_level; /* the closing ByteLevel has been seen */
};

/* ---- from the file ---- */

static tt_status compile(const char *pattern, size_t n, const char *file, pcre2_code **code,
                         tt_error *err)
{
    tt_buf text;
    tt_buf_init(&text, MAX_PATTERN);
    pcre2_compile_context *cc = pcre2_compile_context_create(NULL);
    tt_status st = cc == NULL ? tt_fail(err, TT_ERR_NOMEM, "out of memory for a pattern")
                              : tt_split_pattern(pattern, n, file, &text, err);
    if (st == TT_OK) {
        int number = 0;
        PCRE2_SIZE where = 0;
        pcre2_set_newline(cc, PCRE2_NEWLINE_LF);
        *code = pcre2_compile((PCRE2_SPTR)(text.data == NULL ? "" : text.data), text.len,
                              PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &number, &where, cc);
        if (*code == NULL) {
            char why[128] = "";
            pcre2_get_error_message(number, (PCRE2_UCHAR *)why, sizeof why);
            st = tt_fail_at(err, TT_ERR_UNSUPPORTED, file, -1, "split pattern %.*s: %s",
                            n > 400 ? 0 : (int)n, pattern, why);
        } else {
            /* Where no executable memory can be had the pattern is interpreted: slower, the same
             * pieces. */
            (void)pcre2_jit_compile(*code, PCRE2_JIT_COMPLETE);
        }
    }
    pcre2_compile_context_free(cc);
    tt_buf_free(&text);
    return st;
}

static tt_status add_pattern(tt_pretokenizer *pt, const char *pattern, size_t n, const char *file,
                             tt_error *err)
{
    if (pt->n >= MAX_STAGES)
        return tt_fail_at(err, TT_ERR_LIMIT, file, -1, "pre_tokenizer has more than %u patterns",
                          MAX_STAGES);
    TT_TRY(compile(pattern, n, file, &pt->code[pt->n], err));
    pt->n++;
    return TT_OK;
}

static tt_status add_split(tt_pretokenizer *pt, const json_t *node, const char *file, tt_error *err)
{
    json_t *pattern;
    const char *behavior;
    bool invert = false;
    TT_TRY(tt_json_get_object(node, "pattern", file, &pattern, err));
    TT_TRY(tt_json_get_string(node, "behavior", file, &behavior, err));
    TT_TRY(tt_json_opt_bool(node, "invert", file, &invert, err));
    const json_t *regex = json_object_get(pattern, "Regex");
    if (!json_is_string(regex))
        return tt_fail_at(err, TT_ERR_UNSUPPORTED, file, -1,
                          "pre_tokenizer Split needs a \"Regex\" pattern, other kinds are not "
                          "supported");
    if (strcmp(behavior, "Isolated") != 0 || invert)
        return tt_fail_at(err, TT_ERR_UNSUPPORTED, file, -1,
                          "pre_tokenizer Split with behavior \"%s\"%s is not supported, only "
                          "Isolated",
                          behavior, invert ? " and invert" : "");
    return add_pattern(pt, json_string_value(regex), json_string_length(regex), file, err);
}

static tt_status add_byte_level(tt_pretokenizer *pt, const json_t *node, const char *file,
                                tt_error *err)
{
    bool prefix = true, regex = true;
    TT_TRY(tt_json_opt_bool(node, "add_prefix_space", file, &prefix, err));
    TT_TRY(tt_json_opt_bool(node, "use_regex", file, &regex, err));
    if (prefix)
        return tt_fail_at(err, TT_ERR_UNSUPPORTED, file, -1,
                          "pre_tokenizer ByteLevel with add_prefix_space is not supported");
    if (regex)
        TT_TRY(add_pattern(pt, byte_level_pattern, sizeof byte_level_pattern - 1, file, err));
    pt->byte_level = true;
    return TT_OK;
}

static tt_status add_node(tt_pretokenizer *pt, const json_t *node, bool nested, const char *file,
                          tt_error *err)
{
    const char *type;
    if (!json_is_object(node))
        return tt_fail_at(err, TT_ERR_UNSUPPORTED, file, -1,
                          "pre_tokenizer must be ByteLevel or a Sequence that ends with it");
    TT_TRY(tt_json_get_string(node, "type", file, &type, err));
    if (pt->byte_level)
        return tt_fail_at(err, TT_ERR_UNSUPPORTED, file, -1,
                          "pre_tokenizer %s after ByteLevel is not supported", type);
    if (strcmp(type, "Split") == 0)
        return add_split(pt, node, file, err);
    if (strcmp(type, "ByteLevel") == 0)
        return add_byte_level(pt, node, file, err);
    if (strcmp(type, "Sequence") != 0 || nested)
        return tt_fail_at(err, TT_ERR_UNSUPPORTED, file, -1,
                          "pre_tokenizer %s is not supported, only Split, ByteLevel and one "
                          "Sequence of them",
                          type);
    json_t *list;
    TT_TRY(tt_json_get_array(node, "pretokenizers", file, &list, err));
    for (size_t i = 0; i < json_array_size(list); i++)
        TT_TRY(add_node(pt, json_array_get(list, i), true, file, err));
    return TT_OK;
}

tt_status tt_pretokenizer_build(const json_t *node, const char *file, tt_pretokenizer **out,
                                tt_error *err)
{
    tt_pretokenizer *pt = calloc(1, sizeof *pt);
    if (pt == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the pre-tokenizer");
    tt_status st = add_node(pt, node, false, file, err);
    if (st == TT_OK && !pt->byte_level)
        st = tt_fail_at(err, TT_ERR_UNSUPPORTED, file, -1,
                        "pre_tokenizer has no ByteLevel; only byte-level BPE is supported");
    if (st != TT_OK) {
        tt_pretokenizer_free(&pt);
        return st;
    }
    *out = pt;
    return TT_OK;
}

void tt_pretokenizer_free(tt_pretokenizer **pt)
{
    if (pt == NULL || *pt == NULL)
        return;
    for (size_t i = 0; i < (*pt)->n; i++)
        pcre2_code_free((*pt)->code[i]);
    free(*pt);
    *pt = NULL;
}

/* ---- splitting ---- */

typedef struct split {
    const tt_pretokenizer *pt;
    pcre2_match_data *match[MAX_STAGES];
    pcre2_match_context *limits;
    pcre2_jit_stack *stack;     /* made when the small default one does not do */
    const char *text, *subject; /* what is handed out, what is matched: byte for byte alike */
    tt_piece_fn fn;
    void *ctx;
    tt_error *err;
} split;

/* Where the next match at or after `from` lies; *found false when there is none. */
static tt_status next_match(split *s, size_t stage, const char *text, size_t n, size_t from,
                            size_t *begin, size_t *end, bool *found)
{
    for (;;) {
        int rc = pcre2_match(s->pt->code[stage], (PCRE2_SPTR)text, n, from, PCRE2_NO_UTF_CHECK,
                             s->match[stage], s->limits);
        *found = rc >= 0;
        if (rc >= 0) {
            const PCRE2_SIZE *o = pcre2_get_ovector_pointer(s->match[stage]);
            *begin = o[0];
            *end = o[1];
        }
        if (rc >= 0 || rc == PCRE2_ERROR_NOMATCH)
            return TT_OK;
        if (rc == PCRE2_ERROR_JIT_STACKLIMIT && s->stack == NULL &&
            (s->stack = pcre2_jit_stack_create(64 << 10, 16 << 20, NULL)) != NULL) {
            pcre2_jit_stack_assign(s->limits, NULL, s->stack);
            continue;
        }
        char why[128] = "";
        pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
        return tt_fail(s->err, rc == PCRE2_ERROR_NOMEMORY ? TT_ERR_NOMEM : TT_ERR_LIMIT,
                       "the tokenizer's split pattern gave up on this text at byte %zu of a "
                       "stretch of %zu: %s",
                       from, n, why);
    }
}

/* Cuts text[0..n), a part of the subject, by the pattern of `stage`; matches and the gaps between
 * them are pieces alike. */
static tt_status cut(split *s, size_t stage, const char *text, size_t n)
{
    if (stage == s->pt->n)
        return s->fn(s->ctx, s->text + (text - s->subject), n, s->err);
    size_t done = 0, from = 0;
    while (from <= n && done < n) {
        size_t begin = 0, end = 0;
        bool found = false;
        TT_TRY(next_match(s, stage, text, n, from, &begin, &end, &found));
        if (!found)
            break;
        if (begin > done)
            TT_TRY(cut(s, stage + 1, text + done, begin - done));
        if (end > begin)
            TT_TRY(cut(s, stage + 1, text + begin, end - begin));
        done = end;
        from = end;
        if (end == begin) { /* an empty match cuts here; look for the next one further on */
            size_t step = 1;
            if (from < n)
                (void)tt_utf8_read(text + from, &step);
            from += step;
        }
    }
    return done < n ? cut(s, stage + 1, text + done, n - done) : TT_OK;
}

tt_status tt_pretokenizer_split(const tt_pretokenizer *pt, const char *text, size_t n,
                                tt_piece_fn fn, void *ctx, tt_error *err)
{
    split s = {.pt = pt, .text = text, .subject = text, .fn = fn, .ctx = ctx, .err = err};
    tt_buf other;
    if (n == 0)
        return TT_OK;
    tt_buf_init(&other, n);
    bool ready = (s.limits = pcre2_match_context_create(NULL)) != NULL;
    for (size_t i = 0; i < pt->n && ready; i++)
        ready = (s.match[i] = pcre2_match_data_create(1, NULL)) != NULL;
    tt_status st = ready ? tt_split_subject(text, n, &other, err)
                         : tt_fail(err, TT_ERR_NOMEM, "out of memory for splitting text");
    if (st == TT_OK) {
        /* A greedy class takes one step a character back; everything beyond that is a pattern that
         * explodes. */
        uint64_t steps = 10000000 + 32 * (uint64_t)n;
        pcre2_set_match_limit(s.limits, steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX);
        if (other.len > 0)
            s.subject = other.data;
        st = cut(&s, 0, s.subject, n);
    }
    for (size_t i = 0; i < pt->n; i++)
        pcre2_match_data_free(s.match[i]);
    pcre2_match_context_free(s.limits);
    pcre2_jit_stack_free(s.stack);
    tt_buf_free(&other);
    return st;
}
