#include "repack/checkpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "format/le.h"

const char *const tt_snapshot_tokenizer_names[TT_SNAPSHOT_TOKENIZER_FILES] = {
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
    "config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt"};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* Digest of a safetensors file's header: the first 8 + N bytes. */
static tt_status header_sha256(const char *path, char hex[TT_SHA256_HEX], uint64_t *size,
                               tt_error *err)
{
    int fd = -1;
    unsigned char head[8], *buf = NULL;
    tt_status st;
    TT_TRY(tt_file_open(path, &fd, size, err));
    TT_GOTO(tt_file_pread(fd, path, head, sizeof head, 0, err), out);
    uint64_t n = tt_get_u64(head);
    if (n > TT_MAX_SAFETENSORS_HEADER || n > *size - 8) {
        st = tt_fail_at(err, TT_ERR_FORMAT, path, 0, "header length %llu is out of range",
                        (unsigned long long)n);
        goto out;
    }
    if ((buf = malloc(8 + n)) == NULL) {
        st = tt_fail_at(err, TT_ERR_NOMEM, path, -1, "out of memory for a header of %llu bytes",
                        (unsigned long long)n);
        goto out;
    }
    TT_GOTO(tt_file_pread(fd, path, buf, 8 + n, 0, err), out);
    st = tt_sha256_of(buf, 8 + n, hex, err);
out:
    free(buf);
    close(fd);
    return st;
}

static tt_status add_file(json_t *files, const char *path, const char *key, const char *hex,
                          uint64_t size, tt_error *err)
{
    json_t *entry = json_pack("{s:I, s:s}", "size", (json_int_t)size, key, hex);
    if (json_object_set_new(files, base_name(path), entry) != 0)
        return tt_fail_at(err, TT_ERR_FORMAT, path, -1,
                          "cannot note %s in a manifest: its name is not UTF-8", path);
    return TT_OK;
}

static tt_status describe_source(tt_snapshot *s, tt_error *err)
{
    char hex[TT_SHA256_HEX], index[TT_SHA256_HEX] = "";
    uint64_t size = 0;
    json_t *files = NULL;
    const char *index_path = tt_safetensors_index_path(s->st);
    s->source = json_pack("{s:s, s:s, s:{}}", "repository", "", "revision", "", "files");
    files = json_object_get(s->source, "files");
    TT_TRY(tt_file_sha256(s->config_path, hex, &size, NULL, NULL, err));
    TT_TRY(add_file(files, s->config_path, "sha256", hex, size, err));
    if (index_path != NULL) {
        TT_TRY(tt_file_sha256(index_path, index, &size, NULL, NULL, err));
        TT_TRY(add_file(files, index_path, "sha256", index, size, err));
    }
    for (uint32_t i = tt_safetensors_shards(s->st); i-- > 0;) {
        const char *path = tt_safetensors_shard_path(s->st, i);
        TT_TRY(header_sha256(path, hex, &size, err));
        size = tt_safetensors_shard_size(s->st, i);
        TT_TRY(add_file(files, path, "header_sha256", hex, size, err));
    }
    if (json_object_set_new(s->source, "index_sha256",
                            json_string(index_path != NULL ? index : hex)) != 0)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the description of the source");
    return TT_OK;
}

static tt_status find_template(tt_snapshot *s, const char *path, tt_error *err)
{
    json_t *config = NULL;
    TT_TRY(tt_json_load(path, TT_MAX_TEMPLATE + TT_MAX_CONFIG_JSON, &config, err));
    const json_t *chat = json_object_get(config, "chat_template");
    s->has_template |= json_is_string(chat) || json_is_array(chat);
    json_decref(config);
    return TT_OK;
}

static tt_status find_tokenizer(tt_snapshot *s, tt_error *err)
{
    for (size_t i = 0; i < TT_SNAPSHOT_TOKENIZER_FILES; i++) {
        char path[TT_MAX_PATH];
        struct stat sb;
        TT_TRY(tt_path_join(path, s->dir, tt_snapshot_tokenizer_names[i], err));
        if (stat(path, &sb) != 0 && errno == ENOENT)
            continue;
        if (stat(path, &sb) != 0 || !S_ISREG(sb.st_mode))
            return tt_fail_at(err, TT_ERR_IO, path, -1, "%s is not a readable regular file", path);
        if ((uint64_t)sb.st_size > TT_MAX_TOKENIZER_JSON)
            return tt_fail_at(err, TT_ERR_LIMIT, path, -1, "%s has %lld bytes, at most %llu", path,
                              (long long)sb.st_size, (unsigned long long)TT_MAX_TOKENIZER_JSON);
        s->tokenizer[s->n_tokenizer] = tt_snapshot_tokenizer_names[i];
        s->tokenizer_bytes[s->n_tokenizer++] = (uint64_t)sb.st_size;
        s->has_tokenizer |= i == 0;
        s->has_template |= i == 2 || i == 3;
        if (i == 1)
            TT_TRY(find_template(s, path, err));
    }
    return TT_OK;
}

static tt_status open_parts(const char *dir, const tt_st_remote *remote, tt_snapshot *s,
                            tt_error *err)
{
    char *real = realpath(dir, NULL);
    if (real == NULL)
        return tt_fail_errno(err, errno, dir, "cannot open the checkpoint %s", dir);
    size_t len = strlen(real);
    memcpy(s->dir, real, len < sizeof s->dir ? len + 1 : 0);
    free(real);
    if (len >= sizeof s->dir)
        return tt_fail_at(err, TT_ERR_LIMIT, dir, -1, "path is longer than %u bytes",
                          TT_MAX_PATH - 1);
    if (!tt_dir_exists(s->dir))
        return tt_fail_at(err, TT_ERR_INVALID, dir, -1,
                          "%s is not a directory: give the directory that holds config.json", dir);
    TT_TRY(tt_path_join(s->config_path, s->dir, "config.json", err));
    TT_TRY(tt_json_load(s->config_path, TT_MAX_CONFIG_JSON, &s->config, err));
    if (!json_is_object(s->config))
        return tt_fail_at(err, TT_ERR_FORMAT, s->config_path, -1, "%s is not a JSON object",
                          s->config_path);
    TT_TRY(remote != NULL ? tt_safetensors_open_remote(s->dir, remote, &s->st, err)
                          : tt_safetensors_open_dir(s->dir, &s->st, err));
    TT_TRY(describe_source(s, err));
    return find_tokenizer(s, err);
}

tt_status tt_snapshot_open(const char *dir, const tt_st_remote *remote, tt_snapshot *out,
                           tt_error *err)
{
    tt_snapshot *s = calloc(1, sizeof *s);
    if (s == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a checkpoint");
    tt_status st = open_parts(dir, remote, s, err);
    if (st == TT_OK)
        *out = *s;
    else
        tt_snapshot_close(s);
    free(s);
    return st;
}

void tt_snapshot_close(tt_snapshot *s)
{
    if (s == NULL)
        return;
    tt_safetensors_close(&s->st);
    json_decref(s->config);
    json_decref(s->source);
    s->config = s->source = NULL;
}
