/* jinja_format.h: laying out one formatted field, shared by `%` and str.format.
 *
 * Owns:      fill, alignment, sign, zero padding, digit groups.
 * Not here:  reading format texts (jinja_percent.c, jinja_format.c).
 * Laws:      the same characters as Python 3.11.
 * Threads:   one rendering belongs to one thread.
 */
#ifndef TT_TOKENIZER_JINJA_FORMAT_H
#define TT_TOKENIZER_JINJA_FORMAT_H

#include "tokenizer/jinja_int.h"

typedef struct jspec {
    uint32_t fill; /* 0: not given, a blank */
    char align;    /* < > = ^, or 0 */
    char sign;     /* + - blank, or 0 */
    bool alternate, zero;
    char group;               /* , or _ or 0 */
    int64_t width, precision; /* precision -1: not given */
    char type;                /* 0: not given */
} jspec;

/* Appends text within the field. dflt is the alignment when the spec has none. */
void tt_jlay_text(tt_buf *b, const jspec *s, const jstr *text, char dflt);
/* Appends the sign, the prefix and a number: digits up to the first that is none are grouped. */
void tt_jlay_number(tt_buf *b, const jspec *s, bool negative, const char *prefix,
                    const char *digits, size_t n);
/* Digits of |i| in a base, behind `out + 72`; returns where they begin. */
const char *tt_jint_digits(char out[80], int64_t i, unsigned base, bool upper);
/* |f| as e, f, g (or their capitals) without sign, inf and nan in the case asked for. */
void tt_jfloat_digits(tt_buf *b, char type, int precision, bool alternate, double f);
/* One integer or float in the field. */
tt_status tt_jlay_int(jrun *r, tt_buf *b, const jspec *s, int64_t i);
tt_status tt_jlay_float(jrun *r, tt_buf *b, const jspec *s, double f);

#endif
