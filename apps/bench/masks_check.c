/* Documents held against grammars: the byte that cannot follow, and the masks on the way. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "bench/bench.h"
#include "bench/masks.h"

typedef struct check {
    const json_t *cases;
    const tt_tokenizer *tok;
    tt_lexicon *lexicon;
    int64_t ids[256]; /* of the tokens of one byte */
    json_int_t at;    /* the case in work, or -1 */
    tt_grammar *grammar;
    tt_constraint *constraint;
} check;

static tt_status find_ids(check *c, tt_error *err)
{
    memset(c->ids, 0xff, sizeof c->ids);
    for (uint32_t id = 0; id < tt_tokenizer_vocab_size(c->tok); id++) {
        size_t len = 0;
        bool special = false;
        const char *bytes = tt_tokenizer_piece(c->tok, id, &len, &special);
        if (bytes != NULL && len == 1 && !special)
            c->ids[(uint8_t)bytes[0]] = id;
    }
    for (unsigned b = 0; b < 0xf5; b++)
        if (c->ids[b] < 0 && b != 0xc0 && b != 0xc1)
            return tt_fail(err, TT_ERR_UNSUPPORTED, "the vocabulary has no token of byte %02x", b);
    return TT_OK;
}

static void end_case(check *c)
{
    tt_constraint_close(&c->constraint);
    tt_grammar_close(&c->grammar);
    c->at = -1;
}

static tt_status begin_case(check *c, json_int_t at, tt_error *err)
{
    char *tools = NULL;
    if (at == c->at)
        return TT_OK;
    end_case(c);
    const json_t *entry = at < 0 ? NULL : json_array_get(c->cases, (size_t)at);
    if (entry == NULL)
        return tt_fail(err, TT_ERR_INVALID, "case %lld is none of the file's", (long long)at);
    tt_status st = masks_grammar(entry, &c->grammar, &tools, err);
    free(tools);
    if (st == TT_OK)
        st = tt_constraint_create(c->grammar, c->lexicon, TT_START_ANSWER, &c->constraint, err);
    c->at = at;
    return st == TT_OK ? st : tt_fail_context(err, st, "case %lld", (long long)at);
}

static bool may_end(const tt_constraint *c)
{
    return tt_constraint_where(c) != TT_PLACE_OPEN;
}

/* Every token that the document is cut into has to be in the mask of its place. */
static tt_status check_masks(check *c, const char *text, size_t n, bool *ok, tt_error *err)
{
    uint32_t *ids = NULL;
    size_t n_ids = 0;
    const uint64_t *mask;
    tt_constraint_reset(c->constraint, TT_START_ANSWER);
    tt_status st = tt_tokenizer_encode(c->tok, text, n, false, &ids, &n_ids, err);
    *ok = true;
    for (size_t i = 0; st == TT_OK && *ok && i < n_ids; i++) {
        st = tt_constraint_mask(c->constraint, &mask, err);
        if (st == TT_OK)
            *ok = mask[ids[i] / 64] >> ids[i] % 64 & 1;
        if (st == TT_OK && *ok)
            st = tt_constraint_accept(c->constraint, ids[i], err);
    }
    *ok = *ok && may_end(c->constraint);
    tt_free(ids);
    return st;
}

static tt_status check_document(check *c, const char *text, size_t n, json_t *line,
                                masks_tally *tally, tt_error *err)
{
    size_t taken = 0;
    bool masked = false;
    tt_constraint_reset(c->constraint, TT_START_ANSWER);
    while (taken < n && c->ids[(uint8_t)text[taken]] >= 0 &&
           tt_constraint_accept(c->constraint, (uint32_t)c->ids[(uint8_t)text[taken]], NULL) ==
               TT_OK)
        taken++;
    bool whole = taken == n && may_end(c->constraint);
    if (whole)
        TT_TRY(check_masks(c, text, n, &masked, err));
    tally->documents++;
    tally->whole += whole;
    tally->masked += masked;
    if (json_object_set_new(line, "taken", json_integer((json_int_t)taken)) != 0 ||
        json_object_set_new(line, "whole", json_boolean(whole)) != 0 ||
        (whole && json_object_set_new(line, "masked", json_boolean(masked)) != 0))
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a document");
    return TT_OK;
}

static tt_status check_line(check *c, const char *text, size_t n, FILE *out, masks_tally *tally,
                            tt_error *err)
{
    json_t *entry = NULL, *line = NULL;
    TT_TRY(tt_json_parse(text, n, "a document", &entry, err));
    const json_t *document = json_object_get(entry, "document"),
                 *at = json_object_get(entry, "case");
    tt_status st = TT_OK;
    if (!json_is_string(document) || !json_is_integer(at))
        st = tt_fail(err, TT_ERR_FORMAT, "a document must have \"case\" and \"document\"");
    if (st == TT_OK)
        st = begin_case(c, json_integer_value(at), err);
    if (st == TT_OK && (line = json_pack("{s:I}", "case", json_integer_value(at))) == NULL)
        st = tt_fail(err, TT_ERR_NOMEM, "out of memory for a document");
    if (st == TT_OK)
        st = check_document(c, json_string_value(document), json_string_length(document), line,
                            tally, err);
    char *said = st == TT_OK && out != NULL ? json_dumps(line, JSON_COMPACT) : NULL;
    if (st == TT_OK && out != NULL && (said == NULL || fprintf(out, "%s\n", said) < 0))
        st = tt_fail(err, TT_ERR_IO, "the results cannot be written");
    free(said);
    json_decref(line);
    json_decref(entry);
    return st;
}

tt_status masks_check(const char *path, const json_t *cases, const tt_tokenizer *tok,
                      tt_lexicon *lexicon, FILE *out, masks_tally *tally, tt_error *err)
{
    check c = {.cases = cases, .tok = tok, .lexicon = lexicon, .at = -1};
    char *line = NULL;
    size_t cap = 0, number = 0;
    ssize_t n;
    TT_TRY(find_ids(&c, err));
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return tt_fail_errno(err, errno, path, "cannot be read");
    tt_status st = TT_OK;
    while (st == TT_OK && bench_goes_on(NULL) && (n = getline(&line, &cap, f)) > 0) {
        number++;
        st = n > (ssize_t)MASKS_MOST_TEXT ? tt_fail(err, TT_ERR_LIMIT, "too long a document")
                                          : check_line(&c, line, (size_t)n, out, tally, err);
    }
    if (st == TT_OK && ferror(f))
        st = tt_fail_errno(err, errno, path, "cannot be read");
    else if (st != TT_OK)
        st = tt_fail_context(err, st, "%s, line %zu", path, number);
    end_case(&c);
    free(line);
    fclose(f);
    return st;
}
