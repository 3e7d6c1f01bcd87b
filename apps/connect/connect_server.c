#include "connect/connect_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"

#define MOST_ANSWER (1u << 20)
#define SECONDS     20

static tt_status exchange(int fd, const tt_buf *request, tt_buf *answer, tt_error *err)
{
    char some[4096];
    ssize_t n = send(fd, request->data, request->len, MSG_NOSIGNAL);
    if (n != (ssize_t)request->len)
        return tt_fail_errno(err, errno, NULL, "the server cannot be asked");
    while ((n = recv(fd, some, sizeof some, 0)) > 0)
        tt_buf_append(answer, some, (size_t)n);
    if (n < 0)
        return tt_fail_errno(err, errno, NULL, "the server does not answer");
    return tt_buf_status(answer, err);
}

static tt_status get(uint16_t port, const char *key, tt_buf *answer, tt_error *err)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = SECONDS};
    tt_buf request;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return tt_fail_errno(err, errno, NULL, "no socket");
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) != 0) {
        int e = errno;
        close(fd);
        return tt_fail_errno(err, e, NULL,
                             "no server answers on 127.0.0.1:%u: start TinyTitanServer, or say "
                             "--port N, or --model ID and --context N without one",
                             port);
    }
    tt_buf_init(&request, 4096);
    tt_buf_printf(&request, "GET /v1/models HTTP/1.0\r\nHost: 127.0.0.1:%u\r\n", port);
    if (key != NULL)
        tt_buf_printf(&request, "Authorization: Bearer %s\r\n", key);
    tt_buf_puts(&request, "\r\n");
    tt_status st = tt_buf_status(&request, err);
    if (st == TT_OK)
        st = exchange(fd, &request, answer, err);
    tt_buf_free(&request);
    close(fd);
    return st;
}

static bool take_model(const json_t *m, tt_connect_models *out)
{
    const char *id = json_string_value(json_object_get(m, "id"));
    json_int_t context = json_integer_value(json_object_get(m, "context_window"));
    if (id == NULL || strlen(id) >= sizeof out->list[0].id || context < 1 || context > UINT32_MAX)
        return false;
    if (!json_is_true(json_object_get(m, "loadable")) || out->n == TT_CONNECT_MODELS)
        return true;
    if (json_is_true(json_object_get(m, "loaded")))
        out->chosen = out->n;
    out->list[out->n].context = (uint32_t)context;
    snprintf(out->list[out->n++].id, sizeof out->list[0].id, "%s", id);
    return true;
}

static tt_status read_models(uint16_t port, const tt_buf *answer, tt_connect_models *out,
                             tt_error *err)
{
    static const char name[] = "the answer of the server";
    json_t *tree = NULL, *list, *m;
    size_t i;
    const char *body = answer->len > 0 ? strstr(answer->data, "\r\n\r\n") : NULL;
    if (body == NULL || strncmp(answer->data, "HTTP/1.", 7) != 0)
        return tt_fail(err, TT_ERR_FORMAT, "what listens on 127.0.0.1:%u is no TinyTitanServer",
                       port);
    if (strncmp(answer->data + 8, " 401", 4) == 0)
        return tt_fail(
            err, TT_ERR_INVALID,
            "the server asks for a key: say --api-key-file FILE, as it was started with");
    if (strncmp(answer->data + 8, " 200", 4) != 0)
        return tt_fail(err, TT_ERR_FORMAT, "what listens on 127.0.0.1:%u is no TinyTitanServer",
                       port);
    TT_TRY(
        tt_json_parse(body + 4, answer->len - (size_t)(body + 4 - answer->data), name, &tree, err));
    list = json_object_get(tree, "data");
    bool ok = json_is_array(list);
    *out = (tt_connect_models){0};
    json_array_foreach(list, i, m) ok = take_model(m, out) && ok;
    json_decref(tree);
    if (!ok)
        return tt_fail(err, TT_ERR_FORMAT, "what listens on 127.0.0.1:%u is no TinyTitanServer",
                       port);
    return out->n > 0 ? TT_OK
                      : tt_fail(err, TT_ERR_NOT_FOUND,
                                "the server has no model that can be loaded: see --catalog of "
                                "TinyTitanServer");
}

tt_status tt_connect_ask(uint16_t port, const char *key, tt_connect_models *out, tt_error *err)
{
    tt_buf answer;
    tt_buf_init(&answer, MOST_ANSWER);
    tt_status st = get(port, key, &answer, err);
    if (st == TT_OK)
        st = read_models(port, &answer, out, err);
    tt_buf_free(&answer);
    return st;
}
