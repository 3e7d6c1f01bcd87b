/* pattern.h: the regular part of JavaScript's regular expressions, as `pattern` has them.
 *
 * Owns:      their syntax; named formats, which are patterns of ours.
 * Not here:  automata (dfa.h).
 * Laws:      (1) what is not regular, or not known, is refused by its name;  (2) a pattern means
 *            what it means to `new RegExp(pattern, "u").test(text)`;  (3) brackets nest
 *            TT_PATTERN_NEST deep at most.
 * Threads:   one builder, one thread.
 */
#ifndef TT_GRAMMAR_PATTERN_H
#define TT_GRAMMAR_PATTERN_H

#include "grammar/dfa.h"

#define TT_PATTERN_NEST 100u

/* The texts that match. TT_ERR_UNSUPPORTED names what is not supported, TT_ERR_INVALID what is
 * wrong, with the place in the pattern. */
TT_MUST_CHECK tt_status tt_pattern_dfa(tt_builder *b, const char *pattern, size_t n, tt_dfa *out,
                                       tt_error *err);
/* The texts of a format; TT_ERR_UNSUPPORTED when there is no such format here. */
TT_MUST_CHECK tt_status tt_format_dfa(tt_builder *b, const char *format, tt_dfa *out,
                                      tt_error *err);
bool tt_format_known(const char *format);
/* Characters that texts of a format have at most. */
uint32_t tt_format_longest(const char *format);
/* What classes such as \d and \s hold, added to `set`; false for a letter that is none. */
bool tt_pattern_class(tt_builder *b, char letter, tt_charset *set);

#endif
