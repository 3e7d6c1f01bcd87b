/* TinyTitanRepack: checkpoint -> install; verify and inspect installs. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/stop.h"
#include "format/install_layout.h"
#include "repack/against.h"
#include "repack/export.h"
#include "repack/hub_install.h"
#include "repack/repack.h"
#include "repack/repack_hub.h"
#include "repack/repack_inspect.h"
#include "repack/repack_options.h"
#include "repack/repack_progress.h"
#include "repack/repack_text.h"
#include "repack/verify.h"

static bool json_events; /* failures are told as events too */

/* Conversion and verification ask for signals in their progress. `kept` is what stays of the work.
 */
static int failed_keeping(const char *what, const tt_error *err, const char *kept)
{
    int sig = tt_stop_signal();
    if (json_events)
        repack_event("failed", json_pack("{s:s, s:b}", "message", err->message, "stopped",
                                         sig != 0 && err->status == TT_ERR_ABORTED));
    if (sig != 0 && err->status == TT_ERR_ABORTED) {
        fprintf(stderr, "TinyTitanRepack: %s stopped by %s, %s\n", what, tt_stop_name(sig), kept);
        return tt_stop_code(sig);
    }
    fprintf(stderr, "TinyTitanRepack: %s failed: %s\n", what, err->message);
    if (err->file[0] != '\0' && strstr(err->message, err->file) == NULL)
        fprintf(stderr, "  in %s\n", err->file);
    if (err->offset >= 0)
        fprintf(stderr, "  at byte %lld\n", (long long)err->offset);
    return 1;
}

static int failed(const char *what, const tt_error *err)
{
    return failed_keeping(what, err, "nothing was changed");
}

static int install(const repack_options *o)
{
    tt_repack_options ro = {.input = o->snapshot,
                            .output = o->output,
                            .model_id = o->model_id,
                            .policy = o->policy,
                            .overwrite = o->overwrite,
                            .check_text = repack_check_text,
                            .threads = o->threads};
    repack_progress p;
    tt_repack_report r;
    tt_error err = {0};
    repack_progress_init(&p, "converting", o->quiet, o->json);
    ro.check_ctx = &p.events;
    tt_status st = tt_repack_run(&ro, &p.events, &r, &err);
    repack_progress_end(&p);
    if (st != TT_OK)
        return failed("conversion", &err);
    if (o->json)
        repack_event("done", json_pack("{s:s, s:s, s:s, s:I, s:f}", "path", r.path, "model_id",
                                       r.model_id, "manifest_sha256", r.manifest_sha256, "bytes",
                                       (json_int_t)r.bytes, "seconds", tt_now() - p.start));
    else if (!o->quiet)
        printf("Installed %s: %zu files, %.1f MB, %llu tensors, %llu experts in %.1f s\n%s\n",
               r.model_id, r.files, (double)r.bytes / 1e6, (unsigned long long)r.tensors,
               (unsigned long long)r.experts, tt_now() - p.start, r.path);
    return 0;
}

static int export_snapshot(const repack_options *o)
{
    repack_progress p;
    tt_export_report r;
    tt_error err = {0};
    repack_progress_init(&p, "exporting", o->quiet, o->json);
    tt_status st = tt_export_run(o->gturbo, o->export_dir, &p.events, &r, &err);
    repack_progress_end(&p);
    if (st != TT_OK)
        return failed("export", &err);
    if (o->json)
        repack_event("done", json_pack("{s:s, s:I, s:I, s:i, s:f}", "path", r.path, "bytes",
                                       (json_int_t)r.bytes, "tensors", (json_int_t)r.tensors,
                                       "shards", (int)r.shards, "seconds", tt_now() - p.start));
    else if (!o->quiet)
        printf("Exported %llu tensors, %.1f MB in %u shards in %.1f s\n%s\n",
               (unsigned long long)r.tensors, (double)r.bytes / 1e6, r.shards, tt_now() - p.start,
               r.path);
    return 0;
}

/* Whether the install is what its checkpoint gives. */
static int against(const repack_options *o)
{
    repack_progress p;
    tt_against_report r;
    tt_error err = {0};
    repack_progress_init(&p, "comparing", o->quiet, o->json);
    tt_status st = tt_against_run(o->gturbo, o->against, 0, o->threads, &p.events, &r, &err);
    repack_progress_end(&p);
    if (st != TT_OK)
        return failed("comparison", &err);
    if (o->json)
        repack_event("compared",
                     json_pack("{s:I, s:I, s:I}", "parts", (json_int_t)r.parts, "compared",
                               (json_int_t)r.compared, "source_bytes", (json_int_t)r.source_bytes));
    else if (!o->quiet)
        printf("Compared %zu of %zu parts (%.1f MB of the checkpoint) in %.1f s: the same bytes\n",
               r.compared, r.parts, (double)r.source_bytes / 1e6, tt_now() - p.start);
    return 0;
}

static int verify(const repack_options *o)
{
    repack_progress p;
    tt_verify_report r;
    tt_error err = {0};
    repack_progress_init(&p, "verifying", o->quiet, o->json);
    tt_status st = tt_verify_run(o->gturbo, true, o->threads, &p.events, &r, &err);
    repack_progress_end(&p);
    if (st != TT_OK)
        return failed("verification", &err);
    if (o->json) {
        json_t *done =
            json_pack("{s:s, s:I, s:I, s:f}", "path", r.path, "bytes", (json_int_t)r.bytes, "files",
                      (json_int_t)r.files, "seconds", tt_now() - p.start);
        if (r.origin.hub)
            json_object_set_new(done, "source", repack_origin_json(&r.origin));
        repack_event("done", done);
    } else if (!o->quiet) {
        char origin[512];
        tt_origin_tell(&r.origin, origin, sizeof origin);
        printf("Verified %zu files (%llu bytes), %llu experts in %.1f s\n", r.files,
               (unsigned long long)r.bytes, (unsigned long long)r.experts, tt_now() - p.start);
        if (origin[0] != '\0')
            printf("Source: %s\n", origin);
        printf("Receipt: %s/%s\n", r.path, TT_RECEIPT_NAME);
    }
    return 0;
}

/* An interrupted installation can be continued; what to say then. */
static int hub_install(const repack_options *o)
{
    tt_error err = {0};
    if (repack_hub_install(o, &err) == TT_OK)
        return 0;
    char partial[TT_MAX_PATH];
    tt_buf kept;
    snprintf(partial, sizeof partial, "%s.partial", o->output);
    bool there = tt_dir_exists(partial);
    tt_buf_init(&kept, 8 * (size_t)TT_MAX_PATH);
    tt_buf_puts(&kept, "continue it with: TinyTitanRepack --resume --output ");
    tt_shell_quote(&kept, o->output);
    int rc = failed_keeping("installation", &err,
                            there && kept.failed == TT_OK ? kept.data : "nothing was changed");
    tt_buf_free(&kept);
    if (there && err.status != TT_ERR_ABORTED && strstr(err.message, "--discard-partial") == NULL)
        fprintf(stderr,
                "  what has come stays in %s: continue with --resume, or remove it with "
                "--discard-partial\n",
                partial);
    return rc;
}

static int discard(const repack_options *o)
{
    tt_error err = {0};
    if (tt_hub_discard(o->output, &err) != TT_OK)
        return failed("discard", &err);
    printf("Removed %s.partial\n", o->output);
    return 0;
}

int main(int argc, char **argv)
{
    repack_options o;
    char why[512] = "";
    tt_error err = {0};
    if (!repack_options_parse(argc, argv, &o, why)) {
        fprintf(stderr, "TinyTitanRepack: %s; see --help\n", why);
        return 2;
    }
    tt_stop_catch();
    json_events = o.json && o.mode != MODE_LIST && o.mode != MODE_INSPECT;
    int rc = 0;
    switch (o.mode) {
    case MODE_HELP:
        fputs(repack_usage, stdout);
        break;
    case MODE_VERSION:
        printf("TinyTitanRepack %s\n", tt_version());
        break;
    case MODE_INSTALL:
        rc = install(&o);
        break;
    case MODE_HUB:
        rc = hub_install(&o);
        break;
    case MODE_PLAN:
        rc = repack_hub_plan(&o, &err) == TT_OK ? 0 : failed("plan", &err);
        break;
    case MODE_DISCARD:
        rc = discard(&o);
        break;
    case MODE_LIST:
        rc = repack_list_models(o.json, &err) == TT_OK ? 0 : failed("list", &err);
        break;
    case MODE_EXPORT:
        rc = export_snapshot(&o);
        break;
    case MODE_VERIFY:
        rc = o.against != NULL ? against(&o) : 0;
        if (rc == 0)
            rc = verify(&o);
        break;
    case MODE_INSPECT:
        rc = repack_inspect(o.gturbo, o.json, &err) == TT_OK ? 0 : failed("inspection", &err);
        break;
    }
    /* A full disk or a closed pipe must not look like success. */
    if (fflush(stdout) != 0 && rc == 0)
        rc = 1;
    return rc;
}
