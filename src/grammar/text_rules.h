/* text_rules.h: rules of plain text: JSON strings, keys, raw text up to a tag, thoughts.
 *
 * Owns:      what characters and escapes a text may have; UTF-8.
 * Not here:  texts of a pattern (pattern.h), the values around texts (schema_rules.c).
 * Laws:      (1) only whole characters of valid UTF-8, no NUL, no halves of surrogate pairs;  (2)
 *            each rule is built once an automaton, however often it is called.
 * Threads:   one builder, one thread.
 */
#ifndef TT_GRAMMAR_TEXT_RULES_H
#define TT_GRAMMAR_TEXT_RULES_H

#include "grammar/automaton.h"

/* The states inside characters of two to four bytes that lead to `to`. */
typedef struct tt_multibyte {
    uint32_t more1, more2, more3, e0, ed, f0, f4;
} tt_multibyte;

/* `guard` is put on each of them. */
tt_multibyte tt_text_multibyte(tt_builder *b, uint32_t to, tt_guard guard);
/* Edges from a state between characters. */
void tt_text_multibyte_from(tt_builder *b, uint32_t from, const tt_multibyte *m);

/* A JSON string with its quotes; counts characters. `word` (ASCII, may be NULL) never stands in it
 * unescaped. */
uint32_t tt_text_string(tt_builder *b, const char *word);
/* The rest of a key from between two characters on, its quote included. Each key is written in one
 * way only, so that keys can be told apart by their bytes. */
uint32_t tt_text_key_rest(tt_builder *b);
/* Any text until `word` (ASCII) has come, which leads to `found`. `may_end`: the rule may end
 * before. */
uint32_t tt_text_until(tt_builder *b, const char *word, uint32_t found, bool may_end);
/* Raw text and the newline and closing tag behind it; the tag is not in the text. The first
 * character is none of `not_first` (bytes, may be ""). `counted`: counts characters. */
uint32_t tt_text_raw(tt_builder *b, const char *tag, const char *not_first, bool counted);
/* The places where an answer whose document is the rule `entry` may begin. */
tt_starts tt_text_starts(tt_builder *b, uint32_t entry, uint32_t param);

#endif
