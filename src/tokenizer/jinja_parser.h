/* jinja_parser.h: what the statement parser and the expression parser share.
 *
 * Owns:      the token cursor.
 * Not here:  the tree (jinja_int.h).
 * Laws:      the grammar is Jinja2's, production by production.
 * Threads:   one rendering belongs to one thread.
 */
#ifndef TT_TOKENIZER_JINJA_PARSER_H
#define TT_TOKENIZER_JINJA_PARSER_H

#include "tokenizer/jinja_int.h"

typedef struct jparser {
    jrun *r;
    const jtoken *t; /* the current token */
    uint32_t depth;
} jparser;

/* Names that end an expression although they could begin one: for targets and iterables. */
typedef enum jstop { JSTOP_NONE, JSTOP_IN, JSTOP_RECURSIVE } jstop;

bool tt_jp_is(const jparser *p, const char *name);
bool tt_jp_skip(jparser *p, const char *name);
tt_status tt_jp_expect(jparser *p, jtoken_type type);
tt_status tt_jp_expect_name(jparser *p, const jstr **name);
tt_status tt_jp_node(jparser *p, jkind kind, uint32_t line, jnode **out);
/* Checks the finished node's depth. */
tt_status tt_jp_done(jparser *p, jnode *n);
tt_status tt_jp_unexpected(jparser *p);
tt_status tt_jp_enter(jparser *p); /* pair with p->depth-- */

tt_status tt_jp_expression(jparser *p, bool cond, jnode **out);
tt_status tt_jp_tuple(jparser *p, bool simplified, bool cond, jstop stop, bool parens, jnode **out);
tt_status tt_jp_filter(jparser *p, jnode *subject, bool inline_start, jnode **out);

#endif
