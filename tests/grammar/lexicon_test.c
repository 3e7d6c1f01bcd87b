/* Proves that the tries of a lexicon hold every token of a vocabulary once and say of each node
 * what its tokens are, that its sets are those of plain tokens by their length, and that masks are
 * kept under their keys, the newest of them, within the bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/automaton.h"
#include "grammar/lexicon.h"

static tt_tokenizer *tok;

static int open_all(void **state)
{
    return tt_tokenizer_open("models/tales", &tok, NULL) == TT_OK ? 0 : -1;
}

static int close_all(void **state)
{
    tt_tokenizer_close(&tok);
    return 0;
}

static tt_lexicon *lexicon_of(uint32_t vocab)
{
    tt_lexicon *x = NULL;
    assert_int_equal(tt_lexicon_create(tok, vocab, &x, NULL), TT_OK);
    return x;
}

static const uint8_t *piece(uint32_t id, size_t *len)
{
    bool special = false;
    const char *bytes = tt_tokenizer_piece(tok, id, len, &special);
    return special ? NULL : (const uint8_t *)bytes;
}

/* What plain means, written down once more: whole characters, no white space but the space. */
static uint32_t plain_chars(const uint8_t *p, size_t n)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t chars = 0;
    for (size_t i = 0; i < n; chars++) {
        size_t k = p[i] < 0x80 ? 1 : p[i] < 0xc0 ? 0 : p[i] < 0xe0 ? 2 : p[i] < 0xf0 ? 3 : 4;
        uint32_t c = k == 1 ? p[i] : p[i] & (0xffu >> (k + 1));
        if (k == 0 || i + k > n)
            return 0;
        for (size_t j = 1; j < k; j++) {
            if ((p[i + j] & 0xc0) != 0x80)
                return 0;
            c = c << 6 | (p[i + j] & 0x3f);
        }
        bool white = c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
                     c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000 || c == 0xfeff;
        if (c < least[k] || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff || c < 0x20 || c == '"' ||
            c == '\\' || c == '<' || white)
            return 0;
        i += k;
    }
    return chars;
}

/* ---- tries ---- */

/* The tokens of one trie, each of which must be in no other place; how many there are. */
static uint32_t walk_trie(const tt_lex_trie *x, bool plain, uint8_t *met)
{
    uint8_t text[TT_LEXICON_LONGEST];
    uint32_t open[TT_LEXICON_LONGEST], depth = 0, n = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        const tt_lex_node *node = &x->nodes[i];
        assert_true(node->skip > i && node->skip <= x->n && node[1].rank >= node->rank);
        assert_true(node->depth <= depth + 1);
        for (depth = node->depth - 1u; depth > 0 && x->nodes[open[depth - 1]].skip <= i;)
            fail_msg("node %u is outside of what it is below", i);
        text[depth] = node->byte;
        open[depth++] = i;
        for (uint32_t k = node->rank; k < node[1].rank; k++, n++) {
            size_t len;
            const uint8_t *bytes = piece(x->ids[k], &len);
            assert_non_null(bytes);
            assert_int_equal(len, depth);
            assert_memory_equal(bytes, text, len);
            assert_int_equal(met[x->ids[k]]++, 0);
            assert_int_equal(plain_chars(bytes, len) > 0, plain);
        }
    }
    assert_int_equal(n, x->n_ids);
    return n;
}

static void tries_hold_every_token_once(void **state)
{
    uint32_t vocab = tt_tokenizer_vocab_size(tok), want = 0;
    tt_lexicon *x = lexicon_of(vocab);
    uint8_t *met = calloc(vocab, 1);
    uint32_t plain = walk_trie(&x->plain, true, met), rest = walk_trie(&x->rest, false, met);
    for (uint32_t id = 0; id < vocab; id++) {
        size_t len = 0;
        const uint8_t *p = piece(id, &len);
        /* FF announces special tokens: no text has it. */
        want += p != NULL && len > 0 && memchr(p, 0xff, len) == NULL;
    }
    assert_int_equal(plain + rest, want);
    assert_true(plain > 3000 && rest > 200);
    free(met);
    tt_lexicon_close(&x);
    tt_lexicon_close(&x);
}

/* What a node says of the characters behind it, counted anew. */
static void nodes_say_what_is_below_them(void **state)
{
    tt_lexicon *x = lexicon_of(tt_tokenizer_vocab_size(tok));
    for (uint32_t i = 0; i < x->plain.n; i++) {
        const tt_lex_node *node = &x->plain.nodes[i];
        uint32_t longest = 0, classes = 0;
        bool inside = false;
        for (uint32_t k = node->rank; k < x->plain.nodes[node->skip].rank; k++) {
            size_t len;
            const uint8_t *p = piece(x->plain.ids[k], &len);
            uint32_t chars = 0;
            for (size_t at = node->depth; at < len; at++) {
                if ((p[at] & 0xc0) == 0x80)
                    continue;
                chars++;
                classes |= tt_char_class(p[at]);
            }
            inside |= len > node->depth && (p[node->depth] & 0xc0) == 0x80;
            longest = chars > longest ? chars : longest;
        }
        bool leaf = node->skip == i + 1;
        assert_int_equal(node->longest, leaf ? TT_LEXICON_MANY : longest);
        assert_int_equal(node->classes,
                         leaf ? TT_CHARS_OTHER : classes | (inside ? TT_CHARS_INSIDE : 0));
    }
    for (uint32_t i = 0; i < x->rest.n; i++)
        assert_int_equal(x->rest.nodes[i].longest, TT_LEXICON_MANY);
    tt_lexicon_close(&x);
}

static void sets_are_by_length(void **state)
{
    uint32_t vocab = tt_tokenizer_vocab_size(tok), n_long = 0, longest = 0;
    tt_lexicon *x = lexicon_of(vocab);
    for (uint32_t id = 0; id < vocab; id++) {
        size_t len = 0;
        const uint8_t *p = piece(id, &len);
        uint32_t chars = p == NULL ? 0 : plain_chars(p, len);
        longest = chars > longest ? chars : longest;
        n_long += chars > TT_LEXICON_LENGTHS;
        assert_int_equal(tt_mask_has(x->short_plain[0], id), chars > 0);
        for (uint32_t k = 1; k <= TT_LEXICON_LENGTHS; k++)
            assert_int_equal(tt_mask_has(x->short_plain[k], id), chars > 0 && chars <= k);
    }
    assert_int_equal(x->longest, longest);
    assert_int_equal(x->n_long, n_long);
    for (uint32_t i = 0; i < x->n_long; i++) {
        size_t len;
        const uint8_t *p = piece(x->long_plain[i].id, &len);
        assert_int_equal(x->long_plain[i].chars, plain_chars(p, len));
        assert_true(i == 0 || x->long_plain[i - 1].chars <= x->long_plain[i].chars);
    }
    tt_lexicon_close(&x);
}

static void a_smaller_vocabulary_has_no_other_ids(void **state)
{
    tt_lexicon *x = lexicon_of(300);
    for (uint32_t i = 0; i < x->plain.n_ids; i++)
        assert_true(x->plain.ids[i] < 300);
    for (uint32_t i = 0; i < x->rest.n_ids; i++)
        assert_true(x->rest.ids[i] < 300);
    for (size_t i = 0; i < x->n_stops; i++)
        assert_true(x->stops[i] < 300);
    tt_lexicon_close(&x);
    /* More ids than tokens: the others never follow. */
    x = lexicon_of(tt_tokenizer_vocab_size(tok) + 1000);
    assert_true(tt_lexicon_bytes(x) > TT_LEXICON_CACHE);
    tt_lexicon_close(&x);
    tt_error err = {0};
    assert_int_equal(tt_lexicon_create(tok, 0, &x, &err), TT_ERR_INVALID);
    assert_int_equal(tt_lexicon_create(tok, TT_MAX_VOCAB + 1, &x, &err), TT_ERR_INVALID);
    assert_null(x);
}

static void plain_characters(void **state)
{
    static const struct {
        const char *text;
        bool plain;
    } chars[] = {{" ", true},
                 {"\t", false},
                 {"\"", false},
                 {"\\", false},
                 {"<", false},
                 {">", true},
                 {"\177", true},
                 {"\302\240", false},
                 {"\302\241", true},
                 {"\341\232\200", false},
                 {"\341\232\201", true},
                 {"\342\200\212", false},
                 {"\342\200\213", true},
                 {"\342\200\250", false},
                 {"\342\200\251", false},
                 {"\342\200\257", false},
                 {"\342\201\237", false},
                 {"\342\201\236", true},
                 {"\343\200\200", false},
                 {"\343\200\201", true},
                 {"\357\273\277", false},
                 {"\357\273\276", true},
                 {"\360\237\230\200", true}};
    for (size_t i = 0; i < sizeof chars / sizeof *chars; i++)
        if (tt_char_plain((const uint8_t *)chars[i].text, (uint32_t)strlen(chars[i].text)) !=
            chars[i].plain)
            fail_msg("character %zu", i);
}

/* ---- the cache ---- */

static void masks_are_kept_under_their_keys(void **state)
{
    tt_lexicon *x = lexicon_of(200);
    uint64_t mask[4] = {1, 2, 3, 4}, got[4] = {0};
    const uint32_t key[3] = {7, 8, 9}, other[3] = {7, 8, 10};
    assert_false(tt_lexicon_recall(x, 1, key, 3, got));
    tt_lexicon_remember(x, 1, key, 3, mask);
    assert_true(tt_lexicon_recall(x, 1, key, 3, got));
    assert_memory_equal(got, mask, sizeof mask);
    assert_false(tt_lexicon_recall(x, 2, key, 3, got));
    assert_false(tt_lexicon_recall(x, 1, key, 2, got));
    assert_false(tt_lexicon_recall(x, 1, other, 3, got));
    /* What is there already stays as it is. */
    mask[0] = 99;
    tt_lexicon_remember(x, 1, key, 3, mask);
    assert_true(tt_lexicon_recall(x, 1, key, 3, got));
    assert_int_equal(got[0], 1);
    tt_lexicon_close(&x);
}

/* The longest unused goes when there is no more room. */
static void the_newest_are_kept(void **state)
{
    tt_lexicon *x = lexicon_of(4096);
    uint64_t mask[64] = {0}, got[64];
    uint32_t cap = x->cap_cache;
    for (uint32_t i = 0; i < cap; i++) {
        mask[0] = i;
        tt_lexicon_remember(x, 1, &i, 1, mask);
    }
    uint32_t first = 0, second = 1, fresh = cap;
    assert_true(tt_lexicon_recall(x, 1, &first, 1, got));
    tt_lexicon_remember(x, 1, &fresh, 1, mask);
    assert_int_equal(x->n_cache, cap);
    assert_true(tt_lexicon_recall(x, 1, &first, 1, got));
    assert_true(tt_lexicon_recall(x, 1, &fresh, 1, got));
    assert_false(tt_lexicon_recall(x, 1, &second, 1, got));
    assert_true((uint64_t)cap * (64 * 8 + TT_LEXICON_KEY * 4) <= TT_LEXICON_CACHE);
    tt_lexicon_close(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tries_hold_every_token_once),
        cmocka_unit_test(nodes_say_what_is_below_them),
        cmocka_unit_test(sets_are_by_length),
        cmocka_unit_test(a_smaller_vocabulary_has_no_other_ids),
        cmocka_unit_test(plain_characters),
        cmocka_unit_test(masks_are_kept_under_their_keys),
        cmocka_unit_test(the_newest_are_kept),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
