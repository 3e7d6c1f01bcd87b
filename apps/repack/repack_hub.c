#include "repack/repack_hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "repack/catalogue.h"
#include "repack/hub_install.h"
#include "repack/repack_progress.h"
#include "repack/repack_text.h"

#define ENDPOINT "https://huggingface.co"

/* An empty variable is one that is not set. */
static const char *first_of(const char *a, const char *b)
{
    return a != NULL && a[0] != '\0' ? a : b != NULL && b[0] != '\0' ? b : NULL;
}

static void read_environment(tt_hub_options *h)
{
    const char *all = first_of(getenv("ALL_PROXY"), getenv("all_proxy"));
    h->endpoint = first_of(getenv("HF_ENDPOINT"), ENDPOINT);
    h->token = first_of(getenv("HF_TOKEN"), NULL);
    h->no_proxy = first_of(getenv("NO_PROXY"), getenv("no_proxy"));
    /* As every client reads them: upper case is not believed for plain http. */
    bool plain = strncmp(h->endpoint, "http:", 5) == 0;
    h->proxy =
        plain ? getenv("http_proxy") : first_of(getenv("HTTPS_PROXY"), getenv("https_proxy"));
    h->proxy = first_of(h->proxy, all);
}

static void print_models(const tt_catalogue *c)
{
    printf("%-24s %-30s %-10s %-12s %s\n", "name", "repository", "commit", "licence", "draft");
    for (size_t i = 0; i < c->count; i++) {
        const tt_catalogue_model *m = &c->models[i];
        printf("%-24s %-30s %-10.10s %-12s %s\n", m->name, m->repository,
               m->revision[0] != '\0' ? m->revision : "unpinned",
               m->licence[0] != '\0' ? m->licence : "see there", m->mtp ? "yes" : "no");
    }
}

tt_status repack_list_models(bool json, tt_error *err)
{
    tt_catalogue c = {0};
    TT_TRY(tt_catalogue_open(&c, err));
    if (json) {
        char *text = json_dumps(c.tree, JSON_INDENT(1) | JSON_SORT_KEYS);
        if (text != NULL)
            printf("%s\n", text);
        free(text);
    } else {
        print_models(&c);
    }
    tt_catalogue_free(&c);
    return TT_OK;
}

/* Options of the command line as the library takes them. `c` lends the strings of a catalogue
 * model. */
static tt_status take_options(const repack_options *o, tt_catalogue *c, tt_hub_install_options *out,
                              tt_error *err)
{
    const tt_catalogue_model *m = NULL;
    *out = (tt_hub_install_options){.repack = {.output = o->output,
                                               .model_id = o->model_id,
                                               .policy = o->policy,
                                               .overwrite = o->overwrite,
                                               .check_text = repack_check_text,
                                               .threads = o->threads},
                                    .resume = o->resume,
                                    .policy_given = o->policy_given};
    read_environment(&out->hub);
    out->hub.repository = o->repository;
    out->hub.revision = o->revision;
    if (o->repository != NULL && o->revision == NULL && !o->resume)
        out->hub.revision = "main";
    if (o->model == NULL)
        return TT_OK;
    TT_TRY(tt_catalogue_find(c, o->model, &m, err));
    out->hub.repository = m->repository;
    out->hub.revision = strlen(m->revision) == 40 ? m->revision : "main";
    out->pin = m->revision[0] != '\0' ? m->revision : NULL;
    out->index_sha256 = m->index_sha256;
    if (out->repack.model_id == NULL)
        out->repack.model_id = m->name;
    return TT_OK;
}

json_t *repack_origin_json(const tt_origin *o)
{
    return json_pack("{s:s, s:s, s:i, s:i, s:I}", "repository", o->repository, "commit", o->commit,
                     "shards", (int)o->shards, "verified", (int)o->verified, "ranges",
                     (json_int_t)o->ranges);
}

static void tell_result(const repack_options *o, const repack_progress *p,
                        const tt_repack_report *r, const tt_hub_report *h)
{
    double took = tt_now() - p->start;
    if (o->json) {
        repack_event("done",
                     json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:i, s:i, s:f}", "path",
                               r->path, "model_id", r->model_id, "repository", h->repository,
                               "commit", h->commit, "manifest_sha256", r->manifest_sha256, "bytes",
                               (json_int_t)r->bytes, "received", (json_int_t)h->received, "ranges",
                               (json_int_t)h->ranges, "shards", (int)h->shards, "verified",
                               (int)h->verified, "seconds", took));
        return;
    }
    if (o->quiet)
        return;
    if (h->finished_before) {
        printf("The installation was complete already\n%s\n", r->path);
        return;
    }
    printf("Installed %s: %zu files, %.1f MB, %llu tensors, %llu experts in %.1f s\n", r->model_id,
           r->files, (double)r->bytes / 1e6, (unsigned long long)r->tensors,
           (unsigned long long)r->experts, took);
    printf("Source revision: %s %s, %.1f MB received\n", h->repository, h->commit,
           (double)h->received / 1e6);
    if (h->verified == h->shards)
        printf("All %u shards were read whole and verified against the hub's SHA-256\n", h->shards);
    else
        printf(
            "%u of %u shards were read whole and verified against the hub's SHA-256; of the others "
            "the manifest has digests of %zu ranges\n",
            h->verified, h->shards, h->recorded);
    printf("%s\n", r->path);
}

tt_status repack_hub_install(const repack_options *o, tt_error *err)
{
    tt_catalogue c = {0};
    tt_hub_install_options ho;
    tt_repack_report r = {0};
    tt_hub_report h = {0};
    repack_progress p;
    TT_TRY(tt_catalogue_open(&c, err));
    tt_status st = take_options(o, &c, &ho, err);
    if (st == TT_OK) {
        repack_progress_init(&p, "installing", o->quiet, o->json);
        ho.repack.check_ctx = &p.events;
        st = tt_hub_install(&ho, &p.events, &r, &h, err);
        repack_progress_end(&p);
    }
    if (st == TT_OK)
        tell_result(o, &p, &r, &h);
    tt_catalogue_free(&c);
    return st;
}

static void print_plan(const tt_hub_plan *p)
{
    size_t i;
    const json_t *row;
    printf("%s %s\n\n%-56s %-5s %15s %15s\n", p->repository, p->commit, "tensor or file", "type",
           "bytes", "source bytes");
    json_array_foreach(p->table, i, row)
    {
        printf("%-56s %-5s %15lld %15lld\n", json_string_value(json_object_get(row, "name")),
               json_string_value(json_object_get(row, "dtype")),
               (long long)json_integer_value(json_object_get(row, "bytes")),
               (long long)json_integer_value(json_object_get(row, "source_bytes")));
    }
    printf("\n%llu tensors, %llu experts; %llu vision tensors are left out\n",
           (unsigned long long)p->tensors, (unsigned long long)p->experts,
           (unsigned long long)p->vision_tensors);
    printf("download   %10.2f GB in %llu ranges, of a checkpoint of %.2f GB\n",
           (double)p->source_bytes / 1e9, (unsigned long long)p->ranges,
           (double)p->shard_bytes / 1e9);
    printf("install    %10.2f GB\ndisk       %10.2f GB needed, %.2f GB free%s\n",
           (double)p->install_bytes / 1e9, (double)p->disk_bytes / 1e9, (double)p->free_bytes / 1e9,
           p->free_bytes < p->disk_bytes ? ": not enough" : "");
    if (p->rate > 0)
        printf("time       %10.0f min at %.1f MB/s, which one connection gave\n",
               (double)p->source_bytes / p->rate / 60, p->rate / 1e6);
}

static void tell_plan(const repack_options *o, tt_hub_plan *p)
{
    if (!o->json) {
        print_plan(p);
        return;
    }
    repack_event("plan",
                 json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:O}", "repository",
                           p->repository, "commit", p->commit, "ranges", (json_int_t)p->ranges,
                           "checkpoint_bytes", (json_int_t)p->shard_bytes, "source_bytes",
                           (json_int_t)p->source_bytes, "install_bytes",
                           (json_int_t)p->install_bytes, "disk_bytes", (json_int_t)p->disk_bytes,
                           "free_bytes", (json_int_t)p->free_bytes, "rate", p->rate, "table",
                           p->table));
}

tt_status repack_hub_plan(const repack_options *o, tt_error *err)
{
    tt_catalogue c = {0};
    tt_hub_install_options ho;
    tt_hub_plan plan = {0};
    repack_progress p;
    TT_TRY(tt_catalogue_open(&c, err));
    tt_status st = take_options(o, &c, &ho, err);
    if (st == TT_OK) {
        repack_progress_init(&p, "planning", true, false);
        ho.repack.check_ctx = &p.events;
        st = tt_hub_plan_make(&ho, &p.events, &plan, err);
        repack_progress_end(&p);
    }
    if (st == TT_OK)
        tell_plan(o, &plan);
    json_decref(plan.table);
    tt_catalogue_free(&c);
    return st;
}
