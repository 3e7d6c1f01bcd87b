/* Proves that an installation from a hub is the conversion of the downloaded checkpoint byte for
 * byte, through every fault that a hub or a network can have, or ends with a clear sentence and a
 * partial directory that can be continued without fetching anything twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "format/install.h"
#include "repack/hub_install.h"
#include "repack/target.h"
#include "repack/verify.h"
#include "support/mini_install.h"
#include "support/tempdir.h"
#include "support/test_hub.h"

#define REPO "some-org/Some-Model"

static char dir[512], source[600], local[600], target[600], partial[700];
static test_hub *hub;
static tt_hub_install_options opt;
static tt_repack_report report;
static tt_hub_report hr;
static tt_error err;
static uint64_t stop_at; /* bytes of progress after which the user stops; 0: never */

static bool on_progress(void *ctx, uint64_t done, uint64_t total)
{
    return stop_at == 0 || total == 0 || done < stop_at;
}

static const tt_repack_events events = {NULL, on_progress, NULL};

static void convert_locally(const char *from, const char *to)
{
    tt_repack_options o = {.input = from, .output = to, .model_id = "m", .threads = 1};
    if (tt_repack_run(&o, NULL, NULL, &err) != TT_OK)
        fail_msg("%s", err.message);
}

static void serve(const char *from)
{
    hub = test_hub_start(from, REPO);
    opt = (tt_hub_install_options){.repack = {.output = target, .model_id = "m", .threads = 1},
                                   .hub = {.endpoint = test_hub_url(hub),
                                           .repository = REPO,
                                           .revision = "main",
                                           .second_ms = 1,
                                           .stall_seconds = 20},
                                   .range_bytes = 4096};
}

static int setup(void **state)
{
    mini_options o = mini_default();
    tempdir_make(dir);
    snprintf(source, sizeof source, "%s/source", dir);
    snprintf(local, sizeof local, "%s/local.gturbo", dir);
    snprintf(target, sizeof target, "%s/t.gturbo", dir);
    snprintf(partial, sizeof partial, "%s/t.gturbo.partial", dir);
    o.shards = 3;
    o.mtp = true;
    o.vision = true;
    if (tt_dir_make(source, NULL) != TT_OK)
        return 1;
    mini_write(source, &o);
    convert_locally(source, local);
    serve(source);
    stop_at = 0;
    return 0;
}

static int teardown(void **state)
{
    test_hub_stop(&hub);
    tempdir_remove(dir);
    return 0;
}

static tt_status install(bool resume)
{
    opt.resume = resume;
    err = (tt_error){0};
    return tt_hub_install(&opt, &events, &report, &hr, &err);
}

static void must(tt_status st)
{
    if (st != TT_OK)
        fail_msg("%s", err.message);
}

/* Opens, verifies, and has the bytes of the local conversion. */
static void is_the_same(void)
{
    tt_install *in = NULL, *is = NULL;
    must(tt_install_open(target, 0, NULL, NULL, &in, &err));
    assert_true(tt_install_has_receipt(in));
    must(tt_install_open(local, 0, NULL, NULL, &is, &err));
    assert_int_equal(tt_install_file_count(in), tt_install_file_count(is));
    for (size_t i = 0; i < tt_install_file_count(in); i++) {
        const tt_install_file *a = tt_install_file_at(in, i), *b = tt_install_file_at(is, i);
        assert_string_equal(a->rel, b->rel);
        assert_string_equal(a->sha256, b->sha256);
        assert_true(mini_same(target, local, a->rel));
    }
    json_t *a = json_deep_copy(tt_install_manifest(in)),
           *b = json_deep_copy(tt_install_manifest(is));
    const json_t *from = json_object_get(a, "source");
    assert_string_equal(json_string_value(json_object_get(from, "repository")), REPO);
    assert_string_equal(json_string_value(json_object_get(from, "revision")), TEST_HUB_COMMIT);
    assert_string_equal(
        json_string_value(json_object_get(from, "index_sha256")),
        json_string_value(json_object_get(json_object_get(b, "source"), "index_sha256")));
    json_object_del(a, "source");
    json_object_del(b, "source");
    assert_true(json_equal(a, b));
    json_decref(a);
    json_decref(b);
    tt_install_close(&in);
    tt_install_close(&is);
    assert_false(tt_dir_exists(partial));
}

/* ---- without faults ---- */

static void installs(void **state)
{
    must(install(false));
    is_the_same();
    assert_true(hr.ranges > 20);
    assert_int_equal(hr.kept, 0);
    assert_int_equal(hr.shards, 3);
    /* Norm weights are read first, and once more in the ranges that they lie in. */
    assert_true(hr.first_bytes > 0 && hr.first_bytes < hr.source_bytes / 4);
    assert_true(test_hub_sent_again(hub) <= hr.first_bytes);
    assert_string_equal(hr.commit, TEST_HUB_COMMIT);
    /* A second one does not touch the first. */
    assert_int_equal(install(false), TT_ERR_EXISTS);
    opt.repack.overwrite = true;
    must(install(false));
    is_the_same();
}

static void every_spelling(void **state)
{
    for (unsigned k = 0; k < 6; k++) {
        mini_options o = mini_default();
        teardown(state);
        setup(state);
        test_hub_stop(&hub);
        tempdir_remove(source);
        must(tt_dir_make(source, &err));
        must(tt_dir_remove(local, &err));
        o.layout = (mini_layout)(k % 3);
        o.prefix = k % 3;
        o.shards = k;
        o.dense = k == 4;
        o.tied = k == 4;
        o.converted = k == 5;
        o.mtp = k == 3;
        mini_write(source, &o);
        convert_locally(source, local);
        serve(source);
        opt.range_bytes = k % 2 == 0 ? 1 : 0;
        must(install(false));
        is_the_same();
        if (opt.range_bytes == 0 && !o.vision)
            assert_int_equal(hr.verified, hr.shards);
    }
}

static void every_width(void **state)
{
    for (uint32_t bits = 8; bits <= 16; bits *= 2) {
        tt_repack_options o = {.input = source,
                               .output = local,
                               .model_id = "m",
                               .threads = 1,
                               .overwrite = true,
                               .policy = {.build_bits = bits}};
        must(tt_repack_run(&o, NULL, NULL, &err));
        opt.repack.policy.build_bits = bits;
        opt.repack.overwrite = true;
        must(install(false));
        is_the_same();
    }
}

/* The model that the project ships. */
static void tales(void **state)
{
    test_hub_stop(&hub);
    must(tt_dir_remove(local, &err));
    convert_locally("models/tales", local);
    serve("models/tales");
    opt.range_bytes = 0;
    must(install(false));
    is_the_same();
    assert_int_equal(hr.verified, 3);
}

/* Answers to requests for the bytes at *ctx come when three of them wait. */
static void wait_for_others(void *ctx, const test_hub_request *r, test_hub_answer *a)
{
    if (r->content && r->ranged && r->begin == *(const uint64_t *)ctx)
        a->together = 3;
}

static void headers_are_asked_for_at_once(void **state)
{
    for (uint64_t at = 0; at <= 8; at += 8) {
        test_hub_set_fault(hub, wait_for_others, &at);
        test_hub_forget(hub);
        opt.repack.overwrite = true;
        must(install(false));
        assert_int_equal(test_hub_together(hub), 3);
        is_the_same();
    }
}

/* ---- faults that are got over ---- */

typedef struct plan {
    int kind;
    unsigned every; /* of how many requests one goes wrong */
    unsigned most;  /* how many at most; 0: no limit */
    unsigned hit, seen;
    const char *token; /* that was sent with the ticket */
    bool leaked, sent;
} plan;

enum {
    F_DROP,  /* connection closed without an answer */
    F_CUT,   /* connection closed within the body */
    F_EARLY, /* a body that claims to be complete */
    F_STALL, /* nothing more comes */
    F_500,
    F_503, /* with Retry-After */
    F_429,
    F_EXPIRED,   /* 403 of the content host */
    F_RANGE,     /* another range than was asked for */
    F_LONG,      /* more than was asked for */
    F_SAYS_MORE, /* a length that is too large: the last byte is followed by the end of the line */
    F_SAYS_LESS, /* one that is too small */
    F_ETAG,      /* another tag of the contents, which the hub does not know of */
    F_DRIP,      /* slow loris: a byte now and then */
    F_DRIP_HEAD,
    F_SMALL, /* a small file that ends early and claims to be complete */
    F_KINDS
};

static uint64_t seed;
static uint64_t draw(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}

static void misbehave(void *ctx, const test_hub_request *r, test_hub_answer *a)
{
    plan *p = ctx;
    bool range = r->ranged && r->content;
    if (p->kind == F_SMALL ? a->status != 200 || r->file[0] == '\0'
                           : p->kind != F_DROP && p->kind != F_500 && p->kind != F_503 &&
                                 p->kind != F_429 && (!range || a->status != 206))
        return;
    if (p->seen++ % p->every != p->every - 1 || (p->most > 0 && p->hit == p->most))
        return;
    p->hit++;
    uint64_t n = a->length;
    switch (p->kind) {
    case F_DROP:
        a->drop = true;
        break;
    case F_CUT:
    case F_EARLY:
    case F_SMALL:
        a->cut = draw(n);
        a->end_early = p->kind != F_CUT;
        break;
    case F_SAYS_MORE:
        a->length += 8;
        break;
    case F_SAYS_LESS:
        a->length -= n > 8 ? 8 : 1;
        break;
    case F_ETAG:
        strcpy(a->etag, "another");
        break;
    case F_DRIP:
        a->cut = n / 2;
        a->drip = true;
        break;
    case F_DRIP_HEAD:
        a->drip_head = true;
        break;
    case F_STALL:
        a->cut = n / 2;
        a->stall = true;
        break;
    case F_500:
        a->status = 500;
        a->text = "no";
        break;
    case F_503:
    case F_429:
        a->status = p->kind == F_503 ? 503 : 429;
        a->text = "busy";
        strcpy(a->headers, "Retry-After: 2\r\n");
        break;
    case F_EXPIRED:
        a->status = 403;
        a->text = "expired";
        break;
    case F_RANGE:
        a->first++;
        a->last++;
        a->total++;
        break;
    default:
        a->last += 8;
        a->total += 8;
        break;
    }
}

static void faults_are_got_over(void **state)
{
    seed = (uint64_t)getpid() * 2654435761u + 1;
    printf("seed %llu\n", (unsigned long long)seed);
    for (int kind = 0; kind < F_KINDS; kind++) {
        /* Those that cost a second each are rarer. */
        bool slow = kind == F_STALL || kind == F_DRIP || kind == F_DRIP_HEAD;
        plan p = {.kind = kind, .every = slow ? 10 : kind == F_SMALL ? 2 : 5, .most = slow ? 2 : 0};
        opt.hub.stall_seconds = slow ? 1 : 20;
        test_hub_set_fault(hub, misbehave, &p);
        opt.repack.overwrite = true;
        if (install(false) != TT_OK)
            fail_msg("fault %d: %s", kind, err.message);
        assert_true(p.hit > 0);
        test_hub_set_fault(hub, NULL, NULL);
        is_the_same();
    }
}

/* ---- the token ---- */

static void watch(void *ctx, const test_hub_request *r, test_hub_answer *a)
{
    plan *p = ctx;
    p->sent |= !r->content && strcmp(r->token, p->token) == 0;
    p->leaked |= r->content && r->token[0] != '\0';
    if (r->token[0] == '\0' && !r->content) {
        a->status = 401;
        a->text = "";
        a->location[0] = '\0';
    }
}

static void the_token_goes_to_the_endpoint_alone(void **state)
{
    plan p = {.token = "hf_secret"};
    test_hub_set_fault(hub, watch, &p);
    assert_int_equal(install(false), TT_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "HF_TOKEN"));
    opt.hub.token = p.token;
    must(install(false));
    is_the_same();
    assert_true(p.sent);
    assert_false(p.leaked);
    /* Not over plain http to another machine, and no token that would add a header. */
    opt.hub.endpoint = "http://hub.example";
    assert_int_equal(install(false), TT_ERR_EXISTS);
    opt.repack.overwrite = true;
    assert_int_equal(install(false), TT_ERR_INVALID);
    assert_non_null(strstr(err.message, "not private"));
    opt.hub.endpoint = test_hub_url(hub);
    opt.hub.token = "a\r\nX: y";
    assert_int_equal(install(false), TT_ERR_INVALID);
}

/* ---- faults that end it ---- */

typedef struct end {
    const char *name, *says;
    tt_status status;
    bool begun; /* leaves something to continue */
    void (*fault)(void *ctx, const test_hub_request *r, test_hub_answer *a);
} end;

/* The description of the repository is said to be on another host, which does not give it. */
static void elsewhere(const test_hub_request *r, test_hub_answer *a, int status)
{
    if (!r->content && r->file[0] == '\0') {
        a->status = 302;
        snprintf(a->location, sizeof a->location, "%s/elsewhere", test_hub_content_url(hub));
    } else if (r->content && strstr(r->path, "elsewhere") != NULL) {
        a->status = status;
    }
    a->text = a->status >= 300 ? "" : a->text;
}

static void refused_elsewhere(void *ctx, const test_hub_request *r, test_hub_answer *a)
{
    elsewhere(r, a, 403);
}

static void missing_elsewhere(void *ctx, const test_hub_request *r, test_hub_answer *a)
{
    elsewhere(r, a, 404);
}

static void no_ranges(void *ctx, const test_hub_request *r, test_hub_answer *a)
{
    if (a->status == 206) {
        a->status = 200;
        a->say_range = false;
        a->first = 0;
        a->last = a->total - 1;
        a->length = a->total;
    }
}

static void loop(void *ctx, const test_hub_request *r, test_hub_answer *a)
{
    if (a->status == 302)
        snprintf(a->location, sizeof a->location, "%s", r->path);
}

/* A range of the payload that does not come among the first: no header, no norm weight. */
static bool later_range(const test_hub_request *r)
{
    return r->content && r->begin > 20000 && r->end - r->begin > 1000;
}

static void broken_for_good(void *ctx, const test_hub_request *r, test_hub_answer *a)
{
    if (later_range(r)) {
        a->status = 502;
        a->text = "";
    }
}

static void away(void *ctx, const test_hub_request *r, test_hub_answer *a)
{
    if (later_range(r)) {
        a->status = 429;
        a->text = "";
        strcpy(a->headers, "Retry-After: 4000\r\n");
    }
}

/* The tag of the contents changes on the way, and the hub says that it is another file. */
static void changes(void *ctx, const test_hub_request *r, test_hub_answer *a)
{
    if ((*(unsigned *)ctx)++ < 60)
        return;
    if (r->content)
        strcpy(a->etag, "another");
    if (a->linked_etag[0] != '\0')
        strcpy(a->linked_etag, "another");
}

static void refuses_files(void *ctx, const test_hub_request *r, test_hub_answer *a)
{
    if (r->content || r->file[0] == '\0')
        return;
    a->status = 403;
    a->text = "";
    a->location[0] = '\0';
}

/* The hub and the host of the contents do not agree about a size. */
static void other_size(void *ctx, const test_hub_request *r, test_hub_answer *a)
{
    char *line = strstr(a->headers, "X-Linked-Size: ");
    if (line != NULL)
        strcpy(line, "X-Linked-Size: 7\r\n");
}

/* A small file is always shorter than it must be, and claims to be complete. */
static void always_short(void *ctx, const test_hub_request *r, test_hub_answer *a)
{
    if (strcmp(r->file, "config.json") == 0) {
        a->cut = a->length - 1;
        a->end_early = true;
    }
}

static void always_cut(void *ctx, const test_hub_request *r, test_hub_answer *a)
{
    if (strcmp(r->file, "config.json") == 0)
        a->cut = a->length - 1;
}

/* No range comes to its end, and none has any byte of it. */
static void no_bytes(void *ctx, const test_hub_request *r, test_hub_answer *a)
{
    if (later_range(r)) {
        a->cut = 0;
        a->end_early = true;
    }
}

static void other_commit(void *ctx, const test_hub_request *r, test_hub_answer *a)
{
    if ((*(unsigned *)ctx)++ >= 4 && a->commit[0] != '\0')
        strcpy(a->commit, "ffffffffffffffffffffffffffffffffffffffff");
}

static void grows(void *ctx, const test_hub_request *r, test_hub_answer *a)
{
    if (later_range(r))
        a->total += 64;
}

static void spoils(void *ctx, const test_hub_request *r, test_hub_answer *a)
{
    a->spoil = r->content && r->begin > 500 && strstr(r->file, "00001") != NULL;
}

static void faults_that_end_it_leave_what_can_be_continued(void **state)
{
    static const end ends[] = {
        {"gated", "accept its terms", TT_ERR_STATE, false, test_hub_gate},
        {"refused elsewhere", "refuses", TT_ERR_STATE, false, refused_elsewhere},
        {"missing elsewhere", "has no repository", TT_ERR_NOT_FOUND, false, missing_elsewhere},
        {"no ranges", "does not serve parts", TT_ERR_UNSUPPORTED, false, no_ranges},
        {"loop", "redirects", TT_ERR_IO, false, loop},
        {"403", "refuses", TT_ERR_STATE, false, refuses_files},
        {"linked size", "changed on the hub", TT_ERR_STATE, false, other_size},
        {"short", "not of the size that the hub lists", TT_ERR_IO, false, always_short},
        {"cut", "cannot be read", TT_ERR_IO, false, always_cut},
        {"no bytes", "ends too early", TT_ERR_IO, true, no_bytes},
        {"502", "status 502", TT_ERR_IO, true, broken_for_good},
        {"429", "resume later", TT_ERR_STATE, true, away},
        {"changed", "changed on the hub", TT_ERR_STATE, true, changes},
        {"commit", "changed on the hub", TT_ERR_STATE, false, other_commit},
        {"size", "changed on the hub", TT_ERR_STATE, true, grows},
    };
    opt.window = 1; /* one range after the other: those before the fault are done when it comes */
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const end *e = &ends[i];
        unsigned asked = 0;
        test_hub_set_fault(hub, e->fault, &asked);
        opt.repack.overwrite = true;
        tt_status st = install(false);
        if (st != e->status || strstr(err.message, e->says) == NULL)
            fail_msg("%s: %d %s", e->name, st, err.message);
        test_hub_set_fault(hub, NULL, NULL);
        if (tt_dir_exists(partial) != e->begun)
            fail_msg("%s: the partial directory", e->name);
        if (e->begun) {
            tt_install *in = NULL;
            assert_int_not_equal(tt_install_open(partial, 0, NULL, NULL, &in, NULL), TT_OK);
            must(install(true));
            assert_true(hr.kept > 0);
        } else {
            must(install(false));
        }
        is_the_same();
    }
}

/* A whole shard whose digest is not the one the hub named. */
static void spoiled_bytes_are_found(void **state)
{
    test_hub_stop(&hub);
    must(tt_dir_remove(local, &err));
    convert_locally("models/tales", local);
    serve("models/tales");
    opt.range_bytes = 0;
    test_hub_set_fault(hub, spoils, NULL);
    tt_status st = install(false);
    if (st != TT_ERR_CORRUPT && st != TT_ERR_NUMERIC)
        fail_msg("%s", err.message);
    test_hub_set_fault(hub, NULL, NULL);
    must(tt_hub_discard(target, &err));
    assert_false(tt_dir_exists(partial));
    must(install(false));
    is_the_same();
}

/* ---- continuing ---- */

static void nothing_is_fetched_twice(void **state)
{
    uint64_t all;
    must(install(false));
    all = test_hub_sent(hub);
    assert_true(test_hub_sent_again(hub) <= hr.first_bytes);
    must(tt_dir_remove(target, &err));
    test_hub_forget(hub);
    /* Stopped again and again, each time a little further on. */
    unsigned rounds = 0;
    for (uint64_t at = 5000; rounds < 60; at += 9000, rounds++) {
        stop_at = at;
        tt_status st = install(tt_dir_exists(partial));
        if (st == TT_OK)
            break;
        assert_int_equal(st, TT_ERR_ABORTED);
    }
    stop_at = 0;
    assert_true(rounds > 3);
    is_the_same();
    /* What was in flight when it was stopped may come again: never more than a window each time. */
    assert_true(test_hub_sent(hub) >= all);
    opt.window = 1; /* one range at a time */
    must(tt_dir_remove(target, &err));
    test_hub_forget(hub);
    stop_at = hr.source_bytes / 2;
    assert_int_equal(install(false), TT_ERR_ABORTED);
    uint64_t first = test_hub_sent(hub);
    stop_at = 0;
    must(install(true));
    assert_true(hr.kept > hr.ranges / 3);
    /* One range was asked for ahead, and was lost. */
    assert_true(test_hub_sent(hub) <= all + 2 * 4096 + 4096);
    assert_true(first > all / 3);
    is_the_same();
}

static void stop_half_way(void)
{
    opt.window = 1;
    stop_at = 60000;
    assert_int_equal(install(false), TT_ERR_ABORTED);
    stop_at = 0;
    assert_true(tt_dir_exists(partial));
}

static void what_changed_on_the_disk_is_fetched_again(void **state)
{
    char path[800], inner[760];
    stop_half_way();
    snprintf(inner, sizeof inner, "%s/install", partial);
    snprintf(path, sizeof path, "%s/model_weights.bin", inner);
    /* All of it spoiled, but for its size. */
    size_t n = 0;
    char *bytes = mini_slurp(inner, "model_weights.bin", &n);
    for (size_t i = 0; i < n; i++)
        bytes[i] ^= 0x55;
    mini_spew(inner, "model_weights.bin", bytes, n);
    free(bytes);
    must(install(true));
    is_the_same();
    /* Lost altogether. */
    must(tt_dir_remove(target, &err));
    stop_half_way();
    assert_int_equal(unlink(path), 0);
    must(install(true));
    is_the_same();
    /* The small files too. */
    must(tt_dir_remove(target, &err));
    stop_half_way();
    snprintf(path, sizeof path, "%s/source/config.json", partial);
    must(tt_file_publish(path, "{}", 2, &err));
    must(install(true));
    is_the_same();
}

/* Digest of bytes of a file of the checkpoint. */
static void digest(const char *name, uint64_t begin, uint64_t until, char hex[65])
{
    size_t n = 0;
    char *bytes = mini_slurp(source, name, &n);
    assert_true(begin < until && until <= n);
    must(tt_sha256_of(bytes + begin, until - begin, hex, &err));
    free(bytes);
}

/* What the manifest says of the shards is true; returns how many are said to be verified. */
static unsigned recorded(void)
{
    tt_install *in = NULL;
    tt_verify_report vr;
    char hex[65], *rest;
    unsigned verified = 0, shards = 0;
    size_t ranges = 0;
    const char *name, *place;
    json_t *f, *sha;
    must(tt_install_open(target, 0, NULL, NULL, &in, &err));
    const json_t *from = json_object_get(tt_install_manifest(in), "source");
    json_object_foreach(json_object_get(from, "files"), name, f)
    {
        const char *whole = json_string_value(json_object_get(f, "sha256"));
        json_t *parts = json_object_get(f, "ranges");
        if (strstr(name, ".safetensors") == NULL || strstr(name, ".json") != NULL)
            continue;
        shards++;
        assert_true((whole != NULL) != (parts != NULL));
        if (whole != NULL) {
            digest(name, 0, (uint64_t)json_integer_value(json_object_get(f, "size")), hex);
            assert_string_equal(whole, hex);
            assert_string_equal(whole, json_string_value(json_object_get(f, "hub_id")));
            verified++;
        }
        json_object_foreach(parts, place, sha)
        {
            uint64_t begin = strtoull(place, &rest, 10);
            digest(name, begin, strtoull(rest + 1, NULL, 10), hex);
            assert_string_equal(json_string_value(sha), hex);
            ranges++;
        }
    }
    tt_install_close(&in);
    assert_int_equal(hr.verified, verified);
    assert_int_equal(hr.recorded, ranges);
    must(tt_verify_run(target, true, 1, NULL, &vr, &err));
    assert_true(vr.origin.hub);
    assert_string_equal(vr.origin.repository, REPO);
    assert_string_equal(vr.origin.commit, TEST_HUB_COMMIT);
    assert_int_equal(vr.origin.shards, shards);
    assert_int_equal(vr.origin.verified, verified);
    assert_int_equal(vr.origin.ranges, ranges);
    return verified;
}

/* A checkpoint of which every byte is read, in three shards. */
static void serve_whole(void)
{
    mini_options o = mini_default();
    o.shards = 3;
    test_hub_stop(&hub);
    tempdir_remove(source);
    must(tt_dir_make(source, &err));
    must(tt_dir_remove(local, &err));
    mini_write(source, &o);
    convert_locally(source, local);
    serve(source);
}

static void what_was_verified_is_recorded(void **state)
{
    /* Vision tensors are not read, so their shard is not known whole. */
    must(install(false));
    is_the_same();
    unsigned some = recorded();
    assert_true(some < 3 && hr.recorded > 0);
    must(tt_dir_remove(target, &err));
    serve_whole();
    must(install(false));
    is_the_same();
    assert_int_equal(recorded(), 3);
    assert_int_equal(hr.recorded, 0);
    /* Interrupted in the middle of the second: the first was verified by then, the third is after
     * it, and nobody saw the second whole. */
    must(tt_dir_remove(target, &err));
    opt.window = 1;
    stop_at = hr.source_bytes / 2;
    assert_int_equal(install(false), TT_ERR_ABORTED);
    stop_at = 0;
    must(install(true));
    is_the_same();
    assert_int_equal(recorded(), 2);
    assert_true(hr.recorded > 2);
}

/* A verified shard stays so only when what comes a second time is what came at first. */
static void a_lost_range_comes_back_the_same(void **state)
{
    char path[800];
    serve_whole();
    opt.window = 1;
    for (int k = 0; k < 2; k++) {
        must(install(false));
        must(tt_dir_remove(target, &err));
        stop_at = hr.source_bytes / 2;
        assert_int_equal(install(false), TT_ERR_ABORTED);
        stop_at = 0;
        snprintf(path, sizeof path, "%s/install/model_weights.bin", partial);
        assert_int_equal(unlink(path), 0);
        if (k == 0) {
            must(install(true));
            assert_int_equal(recorded(), 2);
        } else {
            test_hub_set_fault(hub, spoils, NULL);
            assert_int_equal(install(true), TT_ERR_CORRUPT);
            assert_non_null(strstr(err.message, "it must be"));
            test_hub_set_fault(hub, NULL, NULL);
            must(install(true));
        }
        is_the_same();
        must(tt_dir_remove(target, &err));
    }
}

static void resuming_alone_knows_what_it_was(void **state)
{
    opt.repack.policy.build_bits = 8;
    tt_repack_options o = {.input = source,
                           .output = local,
                           .model_id = "m",
                           .threads = 1,
                           .overwrite = true,
                           .policy = {.build_bits = 8}};
    must(tt_repack_run(&o, NULL, NULL, &err));
    stop_half_way();
    opt.hub.repository = opt.hub.revision = NULL;
    opt.repack.model_id = NULL;
    opt.repack.policy.build_bits = 0;
    opt.range_bytes = 0;
    must(install(true));
    is_the_same();
    assert_string_equal(report.model_id, "m");
}

static void what_differs_is_refused(void **state)
{
    assert_int_equal(install(true), TT_ERR_NOT_FOUND);
    stop_half_way();
    assert_int_equal(install(false), TT_ERR_EXISTS);
    assert_non_null(strstr(err.message, "--resume"));
    tt_hub_install_options was = opt;
    opt.hub.repository = "some-org/Other";
    assert_int_equal(install(true), TT_ERR_STATE);
    opt = was;
    opt.hub.revision = "v2";
    assert_int_equal(install(true), TT_ERR_STATE);
    opt = was;
    opt.policy_given = true;
    opt.repack.policy.build_bits = 8;
    assert_int_equal(install(true), TT_ERR_STATE);
    assert_non_null(strstr(err.message, "--discard-partial"));
    opt = was;
    opt.repack.model_id = "other";
    assert_int_equal(install(true), TT_ERR_STATE);
    opt = was;
    must(install(true));
    is_the_same();
}

/* The program cuts in another way, which copies in source precision can be in any. */
static void another_plan_is_refused(void **state)
{
    opt.repack.policy.build_bits = 16;
    stop_half_way();
    opt.repack.chunk_values = 64;
    assert_int_equal(install(true), TT_ERR_STATE);
    assert_non_null(strstr(err.message, "another plan"));
    opt.repack.chunk_values = 0;
    must(install(true));
}

static void two_do_not_share_a_target(void **state)
{
    stop_half_way();
    tt_target t;
    must(tt_target_locate(&t, target, &err));
    must(tt_target_take_work(&t, &err));
    assert_int_equal(install(true), TT_ERR_STATE);
    assert_non_null(strstr(err.message, "another TinyTitanRepack"));
    assert_int_equal(tt_hub_discard(target, &err), TT_ERR_STATE);
    tt_target_drop(&t);
    must(install(true));
    is_the_same();
}

static void discarding(void **state)
{
    assert_int_equal(tt_hub_discard(target, &err), TT_ERR_NOT_FOUND);
    stop_half_way();
    must(tt_hub_discard(target, &err));
    assert_false(tt_dir_exists(partial));
    assert_int_equal(install(true), TT_ERR_NOT_FOUND);
}

static void a_crash_after_publication_is_cleaned_up(void **state)
{
    char path[800], hex[65];
    stop_half_way();
    must(install(true));
    /* As if the work directory had not been removed any more. */
    must(tt_dir_make(partial, &err));
    uint64_t size = 0;
    snprintf(path, sizeof path, "%s/manifest.json", target);
    must(tt_file_sha256(path, hex, &size, NULL, NULL, &err));
    snprintf(path, sizeof path, "%s/published", partial);
    must(tt_file_publish(path, hex, 64, &err));
    must(install(true));
    assert_true(hr.finished_before);
    is_the_same();
}

/* ---- what is refused before anything is written ---- */

static void pins(void **state)
{
    opt.pin = "0123456789";
    must(install(false));
    is_the_same();
    must(tt_dir_remove(target, &err));
    opt.pin = "fedc";
    assert_int_equal(install(false), TT_ERR_STATE);
    assert_non_null(strstr(err.message, "by now"));
    opt.pin = NULL;
    opt.index_sha256 = "0000000000000000000000000000000000000000000000000000000000000000";
    assert_int_equal(install(false), TT_ERR_STATE);
    assert_false(tt_dir_exists(partial));
    opt.index_sha256 = NULL;
    opt.hub.repository = "../etc";
    assert_int_equal(install(false), TT_ERR_INVALID);
    opt.hub.repository = REPO;
    opt.hub.revision = "a b";
    assert_int_equal(install(false), TT_ERR_INVALID);
    opt.hub.revision = "main";
    opt.hub.endpoint = "ftp://x";
    assert_int_equal(install(false), TT_ERR_INVALID);
    assert_false(tt_dir_exists(partial));
}

static void gguf(void **state)
{
    test_hub_stop(&hub);
    tempdir_remove(source);
    must(tt_dir_make(source, &err));
    mini_spew(source, "model-q4.gguf", "GGUF", 4);
    hub = test_hub_start(source, "some-org/Some-Model-GGUF");
    opt.hub.endpoint = test_hub_url(hub);
    opt.hub.repository = "some-org/Some-Model-GGUF";
    assert_int_equal(install(false), TT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "quantized a second time"));
    assert_non_null(strstr(err.message, "probably some-org/Some-Model"));
    assert_false(tt_dir_exists(partial));
}

static void shift_norms(void *ctx, mini_tensor *t)
{
    if (strstr(t->name, "norm") != NULL && strstr(t->name, "linear_attn") == NULL)
        t->offset = 1;
}

/* Norm weights that were shifted, in a checkpoint whose form says that they were not. */
static void norms_are_judged_before_anything_is_downloaded(void **state)
{
    mini_options o = mini_default();
    o.edit = shift_norms;
    o.shards = 3;
    test_hub_stop(&hub);
    tempdir_remove(source);
    must(tt_dir_make(source, &err));
    mini_write(source, &o);
    serve(source);
    assert_int_equal(install(false), TT_ERR_FORMAT);
    assert_non_null(strstr(err.message, "say the contrary"));
    assert_false(tt_dir_exists(partial));
    assert_true(hr.source_bytes > 0);
    assert_true(test_hub_sent(hub) < hr.source_bytes / 3); /* headers and norm weights */
}

/* Files of the payload of two installs. */
static void same_payload(const char *a, const char *b)
{
    tt_install *in = NULL;
    must(tt_install_open(a, 0, NULL, NULL, &in, &err));
    for (size_t i = 0; i < tt_install_file_count(in); i++)
        if (strncmp(tt_install_file_at(in, i)->rel, "tokenizer/", 10) != 0 &&
            !mini_same(a, b, tt_install_file_at(in, i)->rel))
            fail_msg("%s", tt_install_file_at(in, i)->rel);
    tt_install_close(&in);
}

static void checkpoint(const mini_options *o)
{
    test_hub_stop(&hub);
    tempdir_remove(source);
    must(tt_dir_make(source, &err));
    must(tt_dir_remove(local, &err));
    mini_write(source, o);
}

/* Fp8 gives the install of the same values in bf16, from a directory and from a hub. */
static void fp8(void **state)
{
    char plain[700], from[700];
    snprintf(plain, sizeof plain, "%s/plain", dir);
    snprintf(from, sizeof from, "%s/plain.gturbo", dir);
    for (unsigned k = 0; k < 3; k++) {
        for (uint32_t bits = 4; bits <= 16; bits *= 2) {
            mini_options o = mini_default();
            o.layout = (mini_layout)k;
            o.width = 192;
            o.mtp = true;
            o.coded = true;
            tt_repack_options ro = {.input = plain,
                                    .output = from,
                                    .model_id = "m",
                                    .threads = 2,
                                    .policy = {.build_bits = bits}};
            must(tt_dir_make(plain, &err));
            mini_write(plain, &o);
            must(tt_repack_run(&ro, NULL, NULL, &err));
            o.fp8 = true;
            o.shards = 2;
            o.quantization = "{\"quant_method\": \"fp8\", \"weight_block_size\": [128, 128]}";
            checkpoint(&o);
            ro.input = source;
            ro.output = local;
            ro.chunk_values = k == 1 ? 192 * 32 : 0;
            must(tt_repack_run(&ro, NULL, NULL, &err));
            same_payload(from, local);
            serve(source);
            opt.repack.policy.build_bits = bits;
            must(install(false));
            is_the_same();
            must(tt_dir_remove(target, &err));
            must(tt_dir_remove(plain, &err));
            must(tt_dir_remove(from, &err));
        }
    }
}

/* The draft in a file that the index does not name. */
static void draft_in_a_file_of_its_own(void **state)
{
    char from[700];
    snprintf(from, sizeof from, "%s/plain.gturbo", dir);
    for (unsigned shards = 1; shards <= 3; shards += 2) {
        mini_options o = mini_default();
        o.mtp = true;
        checkpoint(&o);
        convert_locally(source, from);
        o.draft_file = true;
        o.shards = shards;
        tempdir_remove(source);
        must(tt_dir_make(source, &err));
        mini_write(source, &o);
        convert_locally(source, local);
        same_payload(from, local);
        serve(source);
        must(install(false));
        is_the_same();
        must(tt_dir_remove(target, &err));
        must(tt_dir_remove(from, &err));
    }
}

int main(void)
{
#define T(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(installs),
        T(every_spelling),
        T(every_width),
        T(tales),
        T(headers_are_asked_for_at_once),
        T(faults_are_got_over),
        T(the_token_goes_to_the_endpoint_alone),
        T(faults_that_end_it_leave_what_can_be_continued),
        T(spoiled_bytes_are_found),
        T(nothing_is_fetched_twice),
        T(what_changed_on_the_disk_is_fetched_again),
        T(what_was_verified_is_recorded),
        T(a_lost_range_comes_back_the_same),
        T(resuming_alone_knows_what_it_was),
        T(what_differs_is_refused),
        T(another_plan_is_refused),
        T(two_do_not_share_a_target),
        T(discarding),
        T(a_crash_after_publication_is_cleaned_up),
        T(pins),
        T(gguf),
        T(norms_are_judged_before_anything_is_downloaded),
        T(fp8),
        T(draft_in_a_file_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
