#include "cli/controls.h"

#define C1_LEAD     0xc2 /* U+0080 to U+00BF in UTF-8; C1 are those up to U+009F */
#define REPLACEMENT "\xef\xbf\xbd"

static void show(unsigned char c, tt_buf *out)
{
    if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f) {
        tt_buf_putc(out, '^');
        tt_buf_putc(out, (char)(c ^ 0x40));
    } else {
        tt_buf_putc(out, (char)c);
    }
}

void tt_controls_show(tt_controls *state, const char *text, size_t n, tt_buf *out)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (state->half && c >= 0x80 && c < 0xa0) {
            tt_buf_puts(out, REPLACEMENT);
            state->half = false;
            continue;
        }
        if (state->half)
            tt_buf_putc(out, (char)C1_LEAD);
        state->half = c == C1_LEAD;
        if (!state->half)
            show(c, out);
    }
}
