#include "repack/origin.h"

#include <stdio.h>
#include <string.h>

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text != NULL ? text : "";
}

void tt_origin_of(const json_t *manifest, tt_origin *out)
{
    const json_t *source = json_object_get(manifest, "source");
    json_t *files = json_object_get(source, "files"), *f;
    const char *name, *repository = text_of(source, "repository"),
                      *commit = text_of(source, "revision");
    *out = (tt_origin){0};
    out->hub = repository[0] != '\0' && strlen(repository) < sizeof out->repository &&
               strlen(commit) == 40 && strspn(commit, "0123456789abcdef") == 40;
    if (out->hub) {
        strcpy(out->repository, repository);
        strcpy(out->commit, commit);
    }
    json_object_foreach(files, name, f)
    {
        if (json_object_get(f, "header_sha256") == NULL)
            continue;
        const char *whole = text_of(f, "sha256");
        out->shards++;
        if (whole[0] != '\0' && strcmp(whole, text_of(f, "hub_id")) == 0)
            out->verified++;
        else
            out->ranges += json_object_size(json_object_get(f, "ranges"));
    }
}

void tt_origin_tell(const tt_origin *o, char *text, size_t size)
{
    text[0] = '\0';
    if (!o->hub)
        return;
    size_t n = (size_t)snprintf(text, size, "%s %s", o->repository, o->commit);
    if (n >= size)
        return;
    if (o->verified == o->shards)
        snprintf(text + n, size - n,
                 "; all %u shards were read whole and verified against the hub's SHA-256",
                 o->shards);
    else
        snprintf(text + n, size - n,
                 "; %u of %u shards were read whole and verified against the hub's SHA-256, of the "
                 "others %zu ranges have digests",
                 o->verified, o->shards, o->ranges);
}
