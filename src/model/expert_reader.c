#include "model/expert_reader.h"

#include <stdio.h>

#include "model/plan.h"

static tt_status reader_options(const tt_model_options *o, tt_reader_options *ro, tt_error *err)
{
    *ro = (tt_reader_options){
        .depth = o->io_depth, .piece_bytes = o->io_piece, .mirror_dir = o->expert_mirror};
    if (o->reader != NULL)
        TT_TRY(tt_reader_kind_parse(o->reader, &ro->kind, err));
    return tt_reader_options_check(ro, err);
}

tt_status tt_expert_reader_check(const tt_model_options *o, bool moe, tt_error *err)
{
    tt_reader_options ro;
    TT_TRY(reader_options(o, &ro, err));
    bool given = o->reader != NULL || o->io_depth != 0 || o->io_piece != 0;
    if (!moe && (given || o->expert_mirror != NULL))
        return tt_fail(err, TT_ERR_INVALID,
                       "options of the expert reader were given, but this is a dense model");
    return TT_OK;
}

/* Depth and pieces that were left open, from the probe of the kind that was opened. */
static tt_status probe(const char *const *paths, const tt_plan *plan, const tt_model_options *o,
                       const char *kind, tt_reader_options *ro, tt_probe *p, tt_error *err)
{
    tt_probe_options po = {.paths = paths,
                           .n = plan->n_moe_layers,
                           .read_bytes = plan->expert_bytes,
                           .min_bytes = TT_PROBE_MIN_BYTES,
                           .memory = tt_plan_spare(plan),
                           .cache_file = o->probe_file};
    TT_TRY(tt_reader_kind_parse(kind, &po.kind, err));
    TT_TRY(tt_reader_probe(&po, p, err));
    if (ro->depth == 0)
        ro->depth = p->depth;
    if (ro->piece_bytes == 0)
        ro->piece_bytes = p->piece_bytes;
    return TT_OK;
}

tt_status tt_expert_reader_open(const tt_install *in, const tt_model_options *o, tt_plan *plan,
                                tt_reader **out, tt_probe *known, tt_error *err)
{
    const char *paths[TT_MAX_LAYERS];
    tt_reader_options ro;
    tt_reader *r = NULL;
    tt_error failed = {0};
    tt_probe p = {0};
    char measured[280] = "";
    TT_TRY(reader_options(o, &ro, err));
    for (uint32_t l = 0; l < plan->n_moe_layers; l++)
        paths[l] = tt_install_expert_path(in, l, false);
    TT_TRY(tt_reader_open(paths, plan->n_moe_layers, &ro, &r, err));
    if (o->probe_file != NULL && (ro.depth == 0 || ro.piece_bytes == 0)) {
        tt_status st = probe(paths, plan, o, r->ops->name, &ro, &p, &failed);
        const char *why = st != TT_OK ? failed.message : p.note;
        if (!p.probed && why[0] != '\0')
            snprintf(measured, sizeof measured, "; not measured: %.200s", why);
    }
    if (p.probed) {
        char text[80];
        tt_probe_text(&p, text);
        snprintf(measured, sizeof measured, "; %s%s%.100s", text,
                 p.note[0] != '\0' ? ", not kept: " : "", p.note);
        tt_reader_close(&r);
        TT_TRY(tt_reader_open(paths, plan->n_moe_layers, &ro, &r, err));
    }
    /* What does not fit is left out. */
    if (snprintf(plan->reader, sizeof plan->reader, "%s%s", r->describe, measured) < 0)
        plan->reader[0] = '\0';
    *known = p;
    *out = r;
    return TT_OK;
}

tt_status tt_expert_reader_open_draft(const tt_install *in, const tt_model_options *o,
                                      tt_reader **out, tt_error *err)
{
    const char *paths[] = {tt_install_expert_path(in, 0, true)};
    tt_reader_options ro;
    TT_TRY(reader_options(o, &ro, err));
    ro.mirror_dir = NULL; /* too small to be worth a second disk */
    return tt_reader_open(paths, 1, &ro, out, err);
}
