/* synth_text.h: text for a made-up model: another one's tokenizer, with words for the ids it lacks.
 *
 * Owns:      reading the tokenizer files of a checkpoint, filling up its vocabulary.
 * Not here:  the rest of the model (synth.h), what tokenizer files must hold (tokenizer/).
 * Laws:      (1) text becomes the ids that it has in the checkpoint: the words that are added have
 *            no merges, so nothing is ever encoded as one;  (2) every id of the geometry is text;
 *            (3) the same files and vocabulary give the same bytes.
 * Threads:   one.
 */
#ifndef TT_BENCH_SYNTH_TEXT_H
#define TT_BENCH_SYNTH_TEXT_H

#include "bench/synth_out.h"
#include "format/install.h"

#define SYNTH_TEXT_FILES 4

typedef struct synth_text {
    size_t n;
    char rel[SYNTH_TEXT_FILES][64]; /* of the files written, below the model's directory */
    synth_written written[SYNTH_TEXT_FILES];
} synth_text;

/* Writes the files of the checkpoint `from` into `into`/`below` ("" for `into` itself), which is
 * made when it is missing, for a vocabulary of `vocab` ids. */
TT_MUST_CHECK tt_status synth_write_text(synth_text *out, const char *from, const char *into,
                                         const char *below, uint32_t vocab, tt_error *err);

#endif
