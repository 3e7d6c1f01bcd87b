/* synth: writes a model of random weights in the geometry of a published one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/machine.h"
#include "base/stop.h"
#include "bench/bench.h"
#include "bench/synth.h"

static const char *const bit_words[] = {"4", "8", NULL};
static const char *const table_words[] = {"4", "8", "16", NULL};
static const char *const form_words[] = {"install", "checkpoint", NULL};

static int report(const bench_options *bo, const synth_model *m, bool checkpoint, uint64_t bytes,
                  double seconds)
{
    json_t *obj = json_object();
    bench_set(obj, "command", json_string("synth"));
    bench_set(obj, "version", json_string(tt_version()));
    bench_set(obj, "form", json_string(checkpoint ? "checkpoint" : "install"));
    bench_set(obj, "model_id", json_string(m->model_id));
    bench_set(obj, "output", json_string(m->o.output));
    bench_set(obj, "parameters", json_string(m->parameters));
    bench_set(obj, "bytes", json_integer((json_int_t)bytes));
    bench_set(obj, "seconds", json_real(seconds));
    bench_set(obj, "peak_rss", json_integer((json_int_t)tt_machine_peak_rss()));
    printf("%s: %.2f GB in %.1f s, %.0f MB/s\n%s\n", m->model_id, (double)bytes / 1e9, seconds,
           (double)bytes / seconds / 1e6, m->o.output);
    return bench_finish(bo, obj);
}

int bench_synth(int argc, char **argv)
{
    bench_options bo = {0};
    synth_options o = {.locality = 1, .seed = 1};
    int preset = 0, bits = 0, table = -1, form = 0;
    tt_arg table_of[] = {
        TT_OPT_HEADING("Synth:"),
        TT_OPT_ENUM("preset", &preset, synth_presets, "geometry to write (required)",
                    .required = true),
        TT_OPT_STRING("output", &o.output, "DIR", "directory to write (required)",
                      .required = true),
        TT_OPT_ENUM("bits", &bits, bit_words, "width of linears and experts (4)"),
        TT_OPT_ENUM("head-bits", &table, table_words, "width of embeddings and head (8)"),
        TT_OPT_U32("layers", &o.layers, "N", 1, TT_MAX_LAYERS, "only the first N layers"),
        TT_OPT_U32("ngram-base", &o.ngram_base, "N", 2, 1u << 27,
                   "rows of each head of the n-gram table, about (as published: 20000000)"),
        TT_OPT_FLOAT("locality", &o.locality, "H", 0, 1,
                     "of the chain of ids: 1 as published for the 35B, 0 none (1)"),
        TT_OPT_U64("seed", &o.seed, "N", 0, 0, "of weights and chain (1)"),
        TT_OPT_STRING("tokenizer", &o.tokenizer, "DIR",
                      "checkpoint whose tokenizer it gets, with words for the ids that are left"),
        TT_OPT_ENUM("as", &form, form_words,
                    "a verified install, or a checkpoint of bf16 safetensors (install)"),
        TT_OPT_FLAG("overwrite", &o.overwrite, "replace what was written there before"),
        TT_OPT_U32("threads", &o.threads, "N", 1, TT_MAX_THREADS,
                   "threads, unless given one a physical core"),
        TT_OPT_FLAG("quiet", &o.quiet, "no progress"),
        BENCH_OTHER_ROWS(&bo),
        TT_OPT_END,
    };
    int rc =
        bench_parse("synth",
                    "Writes a model of random weights in the geometry of a published one, with "
                    "routing\nas local as the published 35B's.",
                    table_of, &bo, argc, argv);
    if (rc != BENCH_GO_ON)
        return rc;
    o.preset = synth_presets[preset];
    o.bits = 4u << bits;
    o.table_bits = table < 0 ? 8 : 4u << table;
    synth_model m = {0};
    tt_error err = {0};
    tt_status st = synth_open(&o, &m, &err);
    if (st != TT_OK)
        return st == TT_ERR_INVALID ? bench_usage(&err) : bench_fail(&err);
    uint64_t bytes = 0;
    double begin = tt_now();
    tt_stop_catch();
    st = form == 1 ? synth_write_checkpoint(&m, tt_stop_flag(), &bytes, &err)
                   : synth_write_install(&m, tt_stop_flag(), &bytes, &err);
    rc = st == TT_OK            ? report(&bo, &m, form == 1, bytes, tt_now() - begin)
         : st == TT_ERR_INVALID ? bench_usage(&err) /* no name for a directory */
                                : bench_fail(&err);
    synth_close(&m);
    return rc;
}
