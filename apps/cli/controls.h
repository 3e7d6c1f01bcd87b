/* controls.h: text of a model as a terminal may show it.
 *
 * Owns:      control characters made visible: C0 but newline and tab as ^X, delete as ^?, C1 as
 *            U+FFFD.
 * Not here:  when that is done (text_out.c: on terminals only).
 * Laws:      (1) no control sequence gets through, however the text was cut;  (2) everything else
 *            stays as it is.
 * Threads:   one a state.
 */
#ifndef TT_CLI_CONTROLS_H
#define TT_CLI_CONTROLS_H

#include "base/buf.h"

typedef struct tt_controls {
    bool half; /* the first byte of what may be C1 is held back */
} tt_controls;

/* Appends what is to be shown. Starts with a state of zeros. */
void tt_controls_show(tt_controls *c, const char *text, size_t n, tt_buf *out);

#endif
