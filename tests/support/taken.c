#include "support/taken.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "grammar/matcher.h"
#include "grammar/text_rules.h"

int taken_bytes(const tt_automaton *m, const char *text, size_t n)
{
    tt_gmatcher t;
    assert_int_equal(tt_gmatcher_init(&t, m, m->starts.plain, NULL), TT_OK);
    size_t at = tt_gmatcher_push(&t, text, n);
    int result = at < n ? (int)at : tt_gmatcher_complete(&t) ? TAKEN_ALL : TAKEN_SHORT;
    tt_gmatcher_free(&t);
    return result;
}

int taken(const tt_automaton *m, const char *text)
{
    return taken_bytes(m, text, strlen(text));
}

void taken_finish(tt_builder *b, uint32_t entry, uint32_t param, tt_automaton *out)
{
    tt_error err = {0};
    tt_starts starts = tt_text_starts(b, entry, param);
    if (tt_builder_status(b, &err) != TT_OK || tt_automaton_finish(b, &starts, out, &err) != TT_OK)
        fail_msg("%s", err.message);
    tt_builder_free(b);
}
