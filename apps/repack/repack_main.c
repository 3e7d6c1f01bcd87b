/* TinyTitanRepack: checkpoint -> install; verify and inspect installs. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/stop.h"
#include "repack/repack.h"
#include "repack/repack_inspect.h"
#include "repack/repack_options.h"
#include "repack/repack_progress.h"
#include "repack/repack_text.h"
#include "repack/verify.h"

/* Conversion and verification ask for signals in their progress. */
static int failed(const char *what, const tt_error *err)
{
    int sig = tt_stop_signal();
    if (sig != 0 && err->status == TT_ERR_ABORTED) {
        fprintf(stderr, "TinyTitanRepack: %s stopped by %s, nothing was changed\n", what,
                tt_stop_name(sig));
        return tt_stop_code(sig);
    }
    fprintf(stderr, "TinyTitanRepack: %s failed: %s\n", what, err->message);
    if (err->file[0] != '\0' && strstr(err->message, err->file) == NULL)
        fprintf(stderr, "  in %s\n", err->file);
    if (err->offset >= 0)
        fprintf(stderr, "  at byte %lld\n", (long long)err->offset);
    return 1;
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
    repack_progress_init(&p, "converting", o->quiet);
    ro.check_ctx = &p.events;
    tt_status st = tt_repack_run(&ro, &p.events, &r, &err);
    repack_progress_end(&p);
    if (st != TT_OK)
        return failed("conversion", &err);
    if (!o->quiet)
        printf("Installed %s: %zu files, %.1f MB, %llu tensors, %llu experts in %.1f s\n%s\n",
               r.model_id, r.files, (double)r.bytes / 1e6, (unsigned long long)r.tensors,
               (unsigned long long)r.experts, tt_now() - p.start, r.path);
    return 0;
}

static int verify(const repack_options *o)
{
    repack_progress p;
    tt_verify_report r;
    tt_error err = {0};
    repack_progress_init(&p, "verifying", o->quiet);
    tt_status st = tt_verify_run(o->gturbo, true, &p.events, &r, &err);
    repack_progress_end(&p);
    if (st != TT_OK)
        return failed("verification", &err);
    if (!o->quiet)
        printf("Verified %zu files (%llu bytes), %llu experts in %.1f s\nReceipt: %s/%s\n", r.files,
               (unsigned long long)r.bytes, (unsigned long long)r.experts, tt_now() - p.start,
               r.path, TT_RECEIPT_NAME);
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
    case MODE_VERIFY:
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
