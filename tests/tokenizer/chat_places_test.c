/* Proves that the places which later conversations share are found in the ids of one: after tools
 * and system text, before the last turn of the user, before the generation prefix; and none where
 * there is no conversation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tinytitan/tinytitan.h"

static tt_tokenizer *tok;

/* The checkpoints of a text with [S] for <|im_start|>, held against the texts that stand before
 * them. */
static void places(const char *text, const char *system, const char *turn, const char *message)
{
    const char *want[] = {system, turn, message};
    static const tt_checkpoint_kind kinds[] = {TT_CHECKPOINT_SYSTEM, TT_CHECKPOINT_TURN,
                                               TT_CHECKPOINT_MESSAGE};
    tt_checkpoint got[TT_MOST_CHECKPOINTS];
    uint32_t *ids = NULL;
    size_t n = 0, k = 0, len = 0;
    char *before = NULL;
    assert_int_equal(tt_tokenizer_encode(tok, text, strlen(text), true, &ids, &n, NULL), TT_OK);
    size_t found = tt_chat_checkpoints(tok, ids, n, got);
    for (int i = 0; i < 3; i++) {
        if (want[i] == NULL)
            continue;
        assert_true(k < found);
        assert_int_equal(got[k].kind, kinds[i]);
        assert_int_equal(tt_tokenizer_decode(tok, ids, got[k].at, false, &before, &len, NULL),
                         TT_OK);
        assert_string_equal(before, want[i]);
        tt_free(before);
        k++;
    }
    assert_int_equal(k, found);
    tt_free(ids);
}

#define SYSTEM "<|im_start|>system\nBe kind.<|im_end|>\n"
#define USER   "<|im_start|>user\nA story, please.<|im_end|>\n"
#define SAID   "<|im_start|>assistant\nOnce.<|im_end|>\n"
#define TOOL   "<|im_start|>user\n<tool_response>\n42\n</tool_response><|im_end|>\n"
#define PREFIX "<|im_start|>assistant\n"

static void of_conversations(void **state)
{
    places(SYSTEM USER PREFIX, SYSTEM, NULL, SYSTEM USER);
    places(SYSTEM USER SAID USER PREFIX, SYSTEM, SYSTEM USER SAID, SYSTEM USER SAID USER);
    places(SYSTEM USER SAID TOOL PREFIX, SYSTEM, NULL, SYSTEM USER SAID TOOL);
    places(SYSTEM USER SAID USER SAID TOOL SAID TOOL PREFIX, SYSTEM, SYSTEM USER SAID,
           SYSTEM USER SAID USER SAID TOOL SAID TOOL);
    places(USER SAID USER PREFIX, NULL, USER SAID, USER SAID USER);
    places(USER PREFIX, NULL, NULL, USER);
}

static void of_other_text(void **state)
{
    tt_checkpoint got[TT_MOST_CHECKPOINTS];
    places("Once upon a time", NULL, NULL, NULL);
    places(USER, NULL, NULL, NULL);
    places("<|im_start|>", NULL, NULL, NULL);
    assert_int_equal(tt_chat_checkpoints(tok, NULL, 0, got), 0);
    /* ids beyond the vocabulary are nothing */
    assert_int_equal(tt_chat_checkpoints(tok, (uint32_t[]){1u << 31, 5}, 2, got), 0);
}

static int setup(void **state)
{
    return tt_tokenizer_open("models/tales", &tok, NULL) == TT_OK ? 0 : -1;
}

static int teardown(void **state)
{
    tt_tokenizer_close(&tok);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_conversations),
        cmocka_unit_test(of_other_text),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
