#include "repack/hub_client.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/clock.h"
#include "repack/hub_address.h"
#include "repack/repack.h"

#define MAX_HOPS      8u
#define MAX_FRUITLESS 6u
#define MAX_PUSHES    20u
#define MAX_WAIT_S    300u
#define RATE_BYTES    65536u /* a shorter answer says nothing about the link */

struct tt_hub {
    tt_hub_options o;
    char endpoint[1024], repository[TT_HUB_MAX_REPO + 1], revision[256], commit[65];
    char *token, *proxy, *no_proxy;
    bool token_may_go; /* the endpoint is https, or this machine */
    const tt_repack_events *ev;
    CURL *easy;                 /* of blocking requests: keeps the connection */
    uint64_t received, longest; /* of all answers; of one */
    double rate;                /* of the longest */
};

static bool plain(char c)
{
    return isalnum((unsigned char)c) || c == '.' || c == '_' || c == '-';
}

bool tt_hub_repository_valid(const char *name)
{
    const char *slash = strchr(name, '/');
    if (slash == NULL || slash == name || slash[1] == '\0' || strlen(name) > TT_HUB_MAX_REPO ||
        name[0] == '.' || slash[1] == '.')
        return false;
    for (const char *s = name; *s != '\0'; s++)
        if (!plain(*s) && s != slash)
            return false;
    return true;
}

bool tt_hub_revision_valid(const char *revision)
{
    size_t n = strlen(revision);
    for (size_t i = 0; i < n; i++)
        if (!plain(revision[i]) && revision[i] != '/')
            return false;
    return n >= 1 && n <= 128 && strstr(revision, "..") == NULL;
}

/* ---- addresses ---- */

static tt_status first_url(tt_hub_request *r, tt_error *err)
{
    const tt_hub *h = r->hub;
    char revision[512];
    int n;
    r->cached_url = false;
    if (r->path != NULL) {
        n = snprintf(r->url, sizeof r->url, "%s%s", h->endpoint, r->path);
    } else if (r->file->url[0] != '\0') {
        r->cached_url = true;
        n = snprintf(r->url, sizeof r->url, "%s", r->file->url);
    } else {
        char *name = curl_easy_escape(h->easy, r->file->name, 0);
        tt_hub_escape_revision(h->commit[0] != '\0' ? h->commit : h->revision, revision);
        n = snprintf(r->url, sizeof r->url, "%s/%s/resolve/%s/%s", h->endpoint, h->repository,
                     revision, name != NULL ? name : "");
        curl_free(name);
    }
    if (n >= (int)sizeof r->url)
        return tt_fail(err, TT_ERR_LIMIT, "the address of %s is longer than %u bytes",
                       r->path != NULL ? r->path : r->file->name, TT_HUB_MAX_URL);
    r->hops = 0;
    return TT_OK;
}

static const char *what(const tt_hub_request *r)
{
    return r->file != NULL ? r->file->name : r->hub->repository;
}

/* ---- opening ---- */

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_ready;

static void start_curl(void)
{
    curl_ready = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static bool copy(char **out, const char *text)
{
    *out = text != NULL && text[0] != '\0' ? strdup(text) : NULL;
    return text == NULL || text[0] == '\0' || *out != NULL;
}

static tt_status check_options(tt_hub *h, const tt_hub_options *o, tt_error *err)
{
    char origin[512];
    size_t n = strlen(o->endpoint);
    while (n > 0 && o->endpoint[n - 1] == '/')
        n--;
    if (n >= sizeof h->endpoint)
        return tt_fail(err, TT_ERR_INVALID, "the hub's address is longer than %zu bytes",
                       sizeof h->endpoint - 1);
    memcpy(h->endpoint, o->endpoint, n);
    h->endpoint[n] = '\0';
    if (!tt_hub_origin(h->endpoint, origin, &h->token_may_go))
        return tt_fail(err, TT_ERR_INVALID,
                       "\"%.200s\" is not the address of a hub: https://HOST is wanted",
                       o->endpoint);
    if (!tt_hub_repository_valid(o->repository))
        return tt_fail(err, TT_ERR_INVALID, "\"%.200s\" is not a repository: ORG/NAME is wanted",
                       o->repository);
    if (!tt_hub_revision_valid(o->revision))
        return tt_fail(err, TT_ERR_INVALID,
                       "\"%.200s\" is not a revision: a commit, a tag or a branch is wanted",
                       o->revision);
    for (const char *s = o->token; s != NULL && *s != '\0'; s++)
        if ((unsigned char)*s <= 0x20 || (unsigned char)*s > 0x7e)
            return tt_fail(err, TT_ERR_INVALID,
                           "the token holds a character that no token has: copy it again");
    strcpy(h->repository, o->repository);
    strcpy(h->revision, o->revision);
    return TT_OK;
}

tt_status tt_hub_open(const tt_hub_options *o, const tt_repack_events *ev, tt_hub **out,
                      tt_error *err)
{
    pthread_once(&curl_once, start_curl);
    if (curl_ready != CURLE_OK)
        return tt_fail(err, TT_ERR_INTERNAL, "libcurl does not start: %s",
                       curl_easy_strerror(curl_ready));
    tt_hub *h = calloc(1, sizeof *h);
    if (h == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a connection");
    h->o = *o;
    h->ev = ev;
    tt_status st = check_options(h, o, err);
    if (st == TT_OK && (!copy(&h->token, o->token) || !copy(&h->proxy, o->proxy) ||
                        !copy(&h->no_proxy, o->no_proxy) || (h->easy = curl_easy_init()) == NULL))
        st = tt_fail(err, TT_ERR_NOMEM, "out of memory for a connection");
    if (st == TT_OK && h->token != NULL && !h->token_may_go)
        st = tt_fail(err, TT_ERR_INVALID,
                     "the token is not sent to %s, since http is not private: use https, or leave "
                     "the token away",
                     h->endpoint);
    if (st != TT_OK) {
        tt_hub_close(&h);
        return st;
    }
    if (h->o.second_ms == 0)
        h->o.second_ms = 1000;
    if (h->o.stall_seconds == 0)
        h->o.stall_seconds = 30;
    *out = h;
    return TT_OK;
}

void tt_hub_close(tt_hub **hub)
{
    if (hub == NULL || *hub == NULL)
        return;
    tt_hub *h = *hub;
    if (h->easy != NULL)
        curl_easy_cleanup(h->easy);
    free(h->token);
    free(h->proxy);
    free(h->no_proxy);
    free(h);
    *hub = NULL;
}

void tt_hub_pin(tt_hub *hub, const char *commit)
{
    snprintf(hub->commit, sizeof hub->commit, "%s", commit);
}

const char *tt_hub_commit(const tt_hub *hub)
{
    return hub->commit;
}

const char *tt_hub_repository(const tt_hub *hub)
{
    return hub->repository;
}

double tt_hub_rate(const tt_hub *hub)
{
    return hub->rate;
}

uint64_t tt_hub_received(const tt_hub *hub)
{
    return hub->received;
}

/* ---- one attempt ---- */

void tt_hub_request_init(tt_hub_request *r, tt_hub *hub, tt_hub_file *file, uint64_t begin,
                         uint64_t end, void *bytes)
{
    *r = (tt_hub_request){.hub = hub, .file = file, .begin = begin, .end = end, .bytes = bytes};
    r->cap = r->max = end - begin;
}

static size_t on_header(char *line, size_t each, size_t n, void *ctx)
{
    tt_hub_request *r = ctx;
    tt_hub_response_line(&r->response, line, each * n);
    return each * n;
}

/* Whether the answer is the bytes that were asked for; looked at when the first of them come. */
static bool wanted(tt_hub_request *r)
{
    const tt_hub_response *a = &r->response;
    if (r->end == 0)
        return a->status == 200;
    r->unranged = a->status == 200;
    r->wrong_range =
        a->status == 206 && (a->first != r->begin + r->got_before || a->last != r->end - 1);
    return a->status == 206 && !r->wrong_range;
}

static bool make_room(tt_hub_request *r, uint64_t need)
{
    uint64_t cap = r->cap == 0 ? 65536 : r->cap;
    while (cap < need)
        cap *= 2;
    if (cap > r->max + 1)
        cap = r->max + 1;
    unsigned char *grown = realloc(r->bytes, cap);
    r->no_memory = grown == NULL;
    if (grown == NULL)
        return false;
    r->bytes = grown;
    r->cap = cap;
    return true;
}

size_t tt_hub_request_body(tt_hub_request *r, const void *bytes, size_t n)
{
    r->hub->received += n;
    if (r->response.status != 200 && r->response.status != 206)
        return n; /* the body of an error or a redirect */
    if (!r->checked && !wanted(r))
        return 0;
    r->checked = true;
    r->too_long = n > r->max - r->got;
    if (r->too_long || (r->end == 0 && r->got + n > r->cap && !make_room(r, r->got + n)))
        return 0;
    memcpy(r->bytes + r->got, bytes, n);
    r->got += n;
    return n;
}

static size_t on_bytes(char *bytes, size_t each, size_t n, void *ctx)
{
    return tt_hub_request_body(ctx, bytes, each * n);
}

static int on_progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const tt_hub *h = ((tt_hub_request *)ctx)->hub;
    return h->ev != NULL && h->ev->progress != NULL && !h->ev->progress(h->ev->ctx, 0, 0);
}

static bool add_header(tt_hub_request *r, const char *line)
{
    struct curl_slist *l = curl_slist_append(r->headers, line);
    if (l != NULL)
        r->headers = l;
    return l != NULL;
}

static tt_status set_headers(tt_hub_request *r, CURL *easy, tt_error *err)
{
    char line[4096];
    curl_slist_free_all(r->headers);
    r->headers = NULL;
    bool ok = add_header(r, "Accept-Encoding: identity");
    if (r->hub->token != NULL && tt_hub_same_origin(r->url, r->hub->endpoint)) {
        if (snprintf(line, sizeof line, "Authorization: Bearer %s", r->hub->token) >=
            (int)sizeof line)
            return tt_fail(err, TT_ERR_INVALID, "the token is too long to be one");
        ok = ok && add_header(r, line);
    }
    if (r->end != 0) {
        snprintf(line, sizeof line, "%llu-%llu", (unsigned long long)(r->begin + r->got),
                 (unsigned long long)(r->end - 1));
        ok = ok && curl_easy_setopt(easy, CURLOPT_RANGE, line) == CURLE_OK;
    }
    if (!ok)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a request");
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, r->headers);
    return TT_OK;
}

tt_status tt_hub_request_begin(tt_hub_request *r, CURL *easy, tt_error *err)
{
    const tt_hub *h = r->hub;
    if (r->url[0] == '\0')
        TT_TRY(first_url(r, err));
    if (r->end == 0)
        r->got = 0;
    if (r->hops == 0)
        tt_hub_response_init(&r->response);
    r->got_before = r->got;
    r->began = tt_now();
    r->too_long = r->wrong_range = r->unranged = r->checked = r->no_memory = false;
    r->curl_error[0] = '\0';
    curl_easy_reset(easy);
    TT_TRY(set_headers(r, easy, err));
    curl_easy_setopt(easy, CURLOPT_URL, r->url);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "TinyTitanRepack/" TT_VERSION_STRING);
    curl_easy_setopt(easy, CURLOPT_PROXY, h->proxy != NULL ? h->proxy : "");
    curl_easy_setopt(easy, CURLOPT_NOPROXY, h->no_proxy != NULL ? h->no_proxy : "");
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, 30L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1024L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)h->o.stall_seconds);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 262144L);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, r->curl_error);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, r);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, r);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, r);
    return TT_OK;
}

/* ---- judgement ---- */

/* Whether the last answer came from the host that the hub sent us to for the contents of a file. */
static bool from_contents(const tt_hub_request *r)
{
    return r->file != NULL && (r->cached_url || !tt_hub_same_origin(r->url, r->hub->endpoint));
}

/* Another attempt, unless too many in a row brought nothing. */
static tt_hub_verdict again(tt_hub_request *r, tt_error *err, const char *why)
{
    /* Of a whole file nothing is kept for the next attempt. */
    r->fruitless = r->end != 0 && r->got > r->got_before ? 1 : r->fruitless + 1;
    if (r->fruitless >= MAX_FRUITLESS) {
        tt_fail(err, TT_ERR_IO, "%s cannot be read from %s: %s (%u attempts)", what(r),
                r->hub->endpoint, why, r->fruitless);
        return TT_HUB_FAILED;
    }
    r->url[0] = '\0';
    if (r->file != NULL && r->fruitless > 1)
        r->file->url[0] = '\0';
    r->wait_ms = ((uint64_t)r->hub->o.second_ms << (r->fruitless - 1)) / 2;
    return TT_HUB_AGAIN;
}

static tt_hub_verdict wait_longer(tt_hub_request *r, tt_error *err)
{
    uint64_t seconds = r->response.retry_after;
    if (seconds == TT_HUB_UNKNOWN)
        seconds = (uint64_t)1 << (r->pushed_back < 6 ? r->pushed_back : 6);
    if (seconds > MAX_WAIT_S || ++r->pushed_back > MAX_PUSHES) {
        tt_fail(err, TT_ERR_STATE,
                "%s wants to be asked less (status %d) and to be left alone for %llu s: resume "
                "later",
                r->hub->endpoint, r->response.status, (unsigned long long)seconds);
        return TT_HUB_FAILED;
    }
    r->url[0] = '\0';
    r->wait_ms = seconds * r->hub->o.second_ms;
    return TT_HUB_PUSHED_BACK;
}

static tt_hub_verdict refused(tt_hub_request *r, tt_error *err)
{
    const tt_hub *h = r->hub;
    const tt_hub_response *a = &r->response;
    const char *remedy =
        h->token == NULL ? "give a token in HF_TOKEN" : "the token in HF_TOKEN does not allow it";
    /* Addresses of contents are good for some time only. */
    if (from_contents(r)) {
        r->file->url[0] = '\0';
        return again(r, err, "the address of its contents has expired");
    }
    if (strcmp(a->error_code, "GatedRepo") == 0)
        tt_fail(err, TT_ERR_STATE, "%s is gated: accept its terms at %s/%s, then %s", h->repository,
                h->endpoint, h->repository, remedy);
    else if (a->status == 401)
        tt_fail(err, TT_ERR_NOT_FOUND, "%s is not there, or private: check the name, or %s",
                h->repository, remedy);
    else
        tt_fail(err, TT_ERR_STATE, "%s refuses %s (status %d%s%s): %s", h->endpoint, what(r),
                a->status, a->error_text[0] != '\0' ? ", " : "", a->error_text, remedy);
    return TT_HUB_FAILED;
}

static tt_hub_verdict missing(tt_hub_request *r, tt_error *err)
{
    const tt_hub *h = r->hub;
    const char *code = r->response.error_code;
    if (from_contents(r)) {
        r->file->url[0] = '\0';
        return again(r, err, "the host of its contents does not have it");
    }
    if (strcmp(code, "RevisionNotFound") == 0)
        tt_fail(err, TT_ERR_NOT_FOUND, "%s has no revision %s", h->repository,
                h->commit[0] != '\0' ? h->commit : h->revision);
    else if (r->file == NULL || strcmp(code, "RepoNotFound") == 0)
        tt_fail(err, TT_ERR_NOT_FOUND, "%s has no repository %s, or no revision %s of it",
                h->endpoint, h->repository, h->revision);
    else
        tt_fail(err, TT_ERR_NOT_FOUND, "%s has no file %s", h->repository, r->file->name);
    return TT_HUB_FAILED;
}

static tt_hub_verdict redirected(tt_hub_request *r, CURL *easy, tt_error *err)
{
    char *to = NULL;
    curl_easy_getinfo(easy, CURLINFO_REDIRECT_URL, &to);
    tt_hub_redirect is = to == NULL || strlen(to) >= sizeof r->url ? TT_HUB_REDIRECT_NOWHERE
                                                                   : tt_hub_redirect_of(r->url, to);
    if (is == TT_HUB_REDIRECT_NOWHERE) {
        tt_fail(err, TT_ERR_FORMAT, "%s redirects %s to no address that can be followed",
                r->hub->endpoint, what(r));
        return TT_HUB_FAILED;
    }
    if (++r->hops > MAX_HOPS) {
        tt_fail(err, TT_ERR_IO, "%s redirects %s more than %u times", r->hub->endpoint, what(r),
                MAX_HOPS);
        return TT_HUB_FAILED;
    }
    if (is == TT_HUB_REDIRECT_UNSAFE) {
        tt_fail(err, TT_ERR_STATE, "%s redirects %s from https to http, which is not followed",
                r->hub->endpoint, what(r));
        return TT_HUB_FAILED;
    }
    strcpy(r->url, to);
    r->wait_ms = 0;
    return TT_HUB_AGAIN;
}

static tt_hub_verdict changed(tt_hub_request *r, tt_error *err, const char *is, const char *was)
{
    tt_fail(
        err, TT_ERR_STATE,
        "%s changed on the hub: it was %.70s, it is %.70s. Discard the partial install and begin "
        "again",
        what(r), was, is);
    return TT_HUB_FAILED;
}

/* The bytes are all there: are they of the file that the others are of? */
static tt_hub_verdict identify(tt_hub_request *r, tt_error *err)
{
    const tt_hub_response *a = &r->response;
    tt_hub_file *f = r->file;
    tt_hub *h = r->hub;
    uint64_t size = r->end != 0 ? a->total : r->got;
    char is[32], was[32];
    if (f == NULL)
        return TT_HUB_DONE;
    if (a->commit[0] != '\0' && h->commit[0] != '\0' && strcmp(a->commit, h->commit) != 0)
        return changed(r, err, a->commit, h->commit);
    const char *id = r->cached_url ? "" : tt_hub_response_id(a);
    if (f->id[0] == '\0')
        strcpy(f->id, id);
    else if (id[0] != '\0' && strcmp(f->id, id) != 0)
        return changed(r, err, id, f->id);
    if (a->etag[0] != '\0' && f->etag[0] != '\0' && strcmp(a->etag, f->etag) != 0) {
        if (!r->cached_url && a->linked_etag[0] == '\0')
            return changed(r, err, a->etag, f->etag);
        if (r->cached_url) { /* the hub has to say whether it is the same */
            f->url[0] = '\0';
            r->got = r->got_before;
            return again(r, err, "its host changed the tag of its contents");
        }
    }
    if (a->etag[0] != '\0')
        strcpy(f->etag, a->etag);
    if (a->linked_size != TT_HUB_UNKNOWN && size != TT_HUB_UNKNOWN && a->linked_size != size)
        size = TT_HUB_UNKNOWN;
    if (size == TT_HUB_UNKNOWN || (f->size != 0 && f->size != size)) {
        snprintf(is, sizeof is, "%llu bytes",
                 (unsigned long long)(r->end != 0 ? a->total : r->got));
        snprintf(was, sizeof was, "%llu bytes",
                 (unsigned long long)(f->size != 0 ? f->size : a->linked_size));
        return changed(r, err, is, was);
    }
    f->size = size;
    if (r->hops > 0)
        strcpy(f->url, r->url);
    return TT_HUB_DONE;
}

static tt_hub_verdict judge_transport(tt_hub_request *r, CURLcode code, tt_error *err)
{
    const char *why = r->curl_error[0] != '\0' ? r->curl_error : curl_easy_strerror(code);
    if (r->unranged) {
        tt_fail(err, TT_ERR_UNSUPPORTED,
                "%s does not serve parts of files, which installing needs: download the checkpoint "
                "by other means and use --input-snapshot",
                r->hub->endpoint);
        return TT_HUB_FAILED;
    }
    if (r->no_memory) {
        tt_fail(err, TT_ERR_NOMEM, "out of memory for %s", what(r));
        return TT_HUB_FAILED;
    }
    if (r->too_long && r->end == 0) {
        tt_fail(err, TT_ERR_LIMIT, "%s has more than %llu bytes", what(r),
                (unsigned long long)r->max);
        return TT_HUB_FAILED;
    }
    if (r->too_long || r->wrong_range) {
        r->got = r->got_before;
        return again(r, err, "the answer is not the part that was asked for");
    }
    switch (code) {
    case CURLE_ABORTED_BY_CALLBACK:
        tt_fail(err, TT_ERR_ABORTED, "stopped");
        return TT_HUB_FAILED;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        tt_fail(err, TT_ERR_IO, "%s cannot prove who it is: %s", r->url, why);
        return TT_HUB_FAILED;
    case CURLE_URL_MALFORMAT:
        tt_fail(err, TT_ERR_INVALID, "%s cannot be asked: %s", r->hub->endpoint, why);
        return TT_HUB_FAILED;
    case CURLE_OUT_OF_MEMORY:
        tt_fail(err, TT_ERR_NOMEM, "out of memory for %s", what(r));
        return TT_HUB_FAILED;
    default: /* with CURLE_UNSUPPORTED_PROTOCOL: what came is no answer, the rest of one perhaps */
        return again(r, err, why);
    }
}

static void note_rate(tt_hub *h, const tt_hub_request *r)
{
    uint64_t came = r->got - r->got_before;
    if (came < RATE_BYTES || came <= h->longest)
        return;
    h->longest = came;
    h->rate = (double)came / (tt_now() - r->began + 1e-9);
}

tt_hub_verdict tt_hub_request_judge(tt_hub_request *r, CURL *easy, CURLcode code, tt_error *err)
{
    int status = r->response.status;
    char why[64];
    note_rate(r->hub, r);
    /* Every byte is there, and only the end of the answer is not: nothing is left to ask for. */
    if (code != CURLE_OK && r->end != 0 && r->checked && !r->too_long &&
        r->got == r->end - r->begin)
        code = CURLE_OK;
    if (code != CURLE_OK)
        return judge_transport(r, code, err);
    switch (status) {
    case 200:
    case 206:
        /* An empty body never came by `wanted`. */
        if (r->end != 0 && (!r->checked || r->got != r->end - r->begin)) {
            r->unranged = !r->checked && status == 200;
            if (r->unranged)
                return judge_transport(r, CURLE_OK, err);
            return again(r, err, "the answer ends too early");
        }
        if (r->end == 0 && r->response.length != TT_HUB_UNKNOWN && r->got != r->response.length)
            return again(r, err, "the answer ends too early");
        if (r->end == 0 && r->file != NULL && r->file->size != 0 && r->got != r->file->size)
            return again(r, err, "the answer is not of the size that the hub lists");
        return identify(r, err);
    case 301:
    case 302:
    case 303:
    case 307:
    case 308:
        return redirected(r, easy, err);
    case 401:
    case 403:
        return refused(r, err);
    case 404:
    case 410:
        return missing(r, err);
    case 416:
        snprintf(why, sizeof why, "%llu bytes",
                 r->response.total != TT_HUB_UNKNOWN ? (unsigned long long)r->response.total : 0);
        return changed(r, err, why, "longer");
    case 429:
        return wait_longer(r, err);
    case 503:
        if (r->response.retry_after != TT_HUB_UNKNOWN)
            return wait_longer(r, err);
        /* fall through */
    default:
        break;
    }
    snprintf(why, sizeof why, "status %d", status);
    if (status == 408 || status >= 500)
        return again(r, err, why);
    tt_fail(err, TT_ERR_IO, "%s answers %s with status %d%s%s", r->hub->endpoint, what(r), status,
            r->response.error_text[0] != '\0' ? ": " : "", r->response.error_text);
    return TT_HUB_FAILED;
}

void tt_hub_request_free(tt_hub_request *r)
{
    curl_slist_free_all(r->headers);
    r->headers = NULL;
}

/* ---- blocking ---- */

static tt_status pause_for(const tt_hub *h, uint64_t ms, tt_error *err)
{
    while (ms > 0) {
        uint64_t step = ms < 100 ? ms : 100;
        struct timespec ts = {0, (long)step * 1000000};
        if (h->ev != NULL && h->ev->progress != NULL && !h->ev->progress(h->ev->ctx, 0, 0))
            return tt_fail(err, TT_ERR_ABORTED, "stopped");
        nanosleep(&ts, NULL);
        ms -= step;
    }
    return TT_OK;
}

static tt_status perform(tt_hub *h, tt_hub_request *r, tt_error *err)
{
    tt_error local;
    tt_hub_verdict v;
    if (err == NULL)
        err = &local;
    do {
        TT_TRY(tt_hub_request_begin(r, h->easy, err));
        curl_easy_setopt(h->easy, CURLOPT_NOPROGRESS, 0L);
        curl_easy_setopt(h->easy, CURLOPT_XFERINFOFUNCTION, on_progress);
        curl_easy_setopt(h->easy, CURLOPT_XFERINFODATA, r);
        CURLcode code = curl_easy_perform(h->easy);
        v = tt_hub_request_judge(r, h->easy, code, err);
        if (v == TT_HUB_AGAIN || v == TT_HUB_PUSHED_BACK)
            TT_TRY(pause_for(h, r->wait_ms, err));
    } while (v == TT_HUB_AGAIN || v == TT_HUB_PUSHED_BACK);
    return v == TT_HUB_DONE ? TT_OK : err->status;
}

tt_status tt_hub_get(tt_hub *h, tt_hub_file *file, const char *path, size_t max,
                     unsigned char **bytes, size_t *len, tt_error *err)
{
    tt_hub_request r;
    tt_hub_request_init(&r, h, file, 0, 0, NULL);
    r.path = path;
    r.max = max;
    r.cap = 0;
    tt_status st = make_room(&r, 1) ? perform(h, &r, err)
                                    : tt_fail(err, TT_ERR_NOMEM, "out of memory for %s", what(&r));
    tt_hub_request_free(&r);
    if (st != TT_OK) {
        free(r.bytes);
        return st;
    }
    *bytes = r.bytes;
    *len = (size_t)r.got;
    return TT_OK;
}
