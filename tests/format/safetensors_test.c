/* Proves that good checkpoints, single and sharded, are read exactly, and that every kind of damage
 * is refused with a status, the file and words that name the cause. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "format/safetensors.h"

static char dir[64]; /* scratch, made anew for every test */

static int make_scratch(void **state)
{
    strcpy(dir, "/tmp/tt-safetensors-XXXXXX");
    return mkdtemp(dir) == NULL;
}

static int drop_scratch(void **state)
{
    return tt_dir_remove(dir, NULL) != TT_OK;
}

static void put(const char *name, const void *bytes, size_t n)
{
    char path[TT_MAX_PATH];
    assert_int_equal(tt_path_join(path, dir, name, NULL), TT_OK);
    assert_int_equal(tt_file_publish(path, bytes, n, NULL), TT_OK);
}

/* A shard with this header (its real length in front) and `data` bytes 0, 1, 2, … */
static void put_shard(const char *name, const char *json, size_t json_bytes, size_t data)
{
    tt_buf b;
    tt_buf_init(&b, TT_GIB);
    for (int i = 0; i < 8; i++)
        tt_buf_putc(&b, (char)(json_bytes >> (8 * i) & 0xff));
    tt_buf_append(&b, json, json_bytes);
    for (size_t i = 0; i < data; i++)
        tt_buf_putc(&b, (char)i);
    assert_int_equal(tt_buf_status(&b, NULL), TT_OK);
    put(name, b.data, b.len);
    tt_buf_free(&b);
}

static tt_status open_dir(tt_error *err)
{
    tt_safetensors *st = NULL;
    tt_status rc = tt_safetensors_open_dir(dir, &st, err);
    assert_true(rc == TT_OK ? st != NULL : st == NULL);
    tt_safetensors_close(&st);
    return rc;
}

/* Opening fails with this status, in a file of this name, with these words. */
static void refused(tt_status want, const char *file, const char *words)
{
    tt_error err = {0};
    tt_status got = open_dir(&err);
    if (got != want || strstr(err.message, words) == NULL || strstr(err.file, file) == NULL)
        print_message("got %s, file \"%s\", message \"%s\"\nwanted %s, \"%s\", \"%s\"\n",
                      tt_status_name(got), err.file, err.message, tt_status_name(want), file,
                      words);
    assert_int_equal(got, want);
    assert_int_equal(err.status, want);
    assert_non_null(strstr(err.message, words));
    assert_non_null(strstr(err.file, file));
}

static void bad_header(const char *json, size_t data, tt_status want, const char *words)
{
    put_shard("model.safetensors", json, strlen(json), data);
    refused(want, "model.safetensors", words);
}

#define T(name, dtype, shape, offsets)                                                             \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

/* ---- good files ---- */

static void reads_the_shipped_checkpoint(void **state)
{
    tt_safetensors *st = NULL;
    assert_int_equal(tt_safetensors_open_dir("models/tales", &st, NULL), TT_OK);
    assert_int_equal(tt_safetensors_shards(st), 3);
    assert_string_equal(tt_safetensors_index_path(st), "models/tales/model.safetensors.index.json");
    assert_non_null(strstr(tt_safetensors_shard_path(st, 0), "model-00001-of-00003.safetensors"));
    uint64_t values = 0;
    for (size_t i = 0; i < tt_safetensors_count(st); i++) {
        const tt_st_tensor *t = tt_safetensors_at(st, i);
        assert_ptr_equal(tt_safetensors_find(st, t->name), t);
        assert_int_equal(t->dtype, TT_ST_BF16);
        values += t->bytes / 2;
        if (i > 0 && t->shard == t[-1].shard)
            assert_int_equal(t->offset, t[-1].offset + t[-1].bytes);
    }
    assert_int_equal(values, 19292720);
    assert_null(tt_safetensors_at(st, tt_safetensors_count(st)));
    assert_null(tt_safetensors_find(st, "lm_head"));
    const tt_st_tensor *t = tt_safetensors_find(st, "lm_head.weight");
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->shape[0], 4096);
    assert_int_equal(t->shape[1], 256);
    tt_safetensors_close(&st);
    assert_null(st);
    tt_safetensors_close(&st);
    tt_safetensors_close(NULL);
}

static void reads_every_form_of_a_good_header(void **state)
{
    tt_safetensors *st = NULL;
    tt_error err = {0};
    uint8_t got[8];
    const char json[] =
        "{\"__metadata__\":{\"format\":\"pt\",\"\":\"\"}," T("b", "F32", "[1,1]", "[8,12]") "," T(
            "\\u0061\\/x", "BF16", "[2,1,2]",
            "[0,8]") "," T("none", "I64", "[0,3]",
                           "[8,8]") "," T("scalar", "U8", "[]", "[12,13]") "," T("five", "I8",
                                                                                 "[1,1,1,1,1]",
                                                                                 "[13,14]") "}   ";
    put_shard("model.safetensors", json, sizeof json - 1, 14);
    assert_int_equal(tt_safetensors_open_dir(dir, &st, &err), TT_OK);
    assert_null(tt_safetensors_index_path(st));
    assert_int_equal(tt_safetensors_count(st), 5);
    assert_string_equal(tt_safetensors_at(st, 0)->name, "a/x");
    assert_string_equal(tt_safetensors_at(st, 1)->name, "none");
    assert_string_equal(tt_safetensors_at(st, 2)->name, "b");
    assert_int_equal(tt_safetensors_find(st, "five")->rank, 5);
    assert_int_equal(tt_safetensors_find(st, "scalar")->rank, 0);
    const tt_st_tensor *t = tt_safetensors_find(st, "b");
    assert_int_equal(t->offset, 8 + sizeof json - 1 + 8);
    assert_int_equal(tt_safetensors_read(st, t, 1, got, 3, NULL), TT_OK);
    assert_memory_equal(got, "\x09\x0a\x0b", 3);
    assert_int_equal(tt_safetensors_read(st, t, 4, got, 0, NULL), TT_OK);
    assert_int_equal(tt_safetensors_read(st, t, 1, got, 4, &err), TT_ERR_INVALID);
    assert_int_equal(tt_safetensors_read(st, t, UINT64_MAX, got, 2, &err), TT_ERR_INVALID);
    assert_int_equal(tt_safetensors_read(st, t, 4, got, SIZE_MAX, &err), TT_ERR_INVALID);
    assert_non_null(strstr(err.message, "tensor b"));
    tt_safetensors_close(&st);
    put_shard("model.safetensors", "{\"__metadata__\":null}", 21, 0);
    assert_int_equal(open_dir(&err), TT_OK);
}

static void a_file_cut_after_opening_is_noticed_by_read(void **state)
{
    tt_safetensors *st = NULL;
    tt_error err = {0};
    char path[TT_MAX_PATH], got[8];
    const char json[] = "{" T("t", "U8", "[8]", "[0,8]") "}";
    put_shard("model.safetensors", json, sizeof json - 1, 8);
    assert_int_equal(tt_path_join(path, dir, "model.safetensors", NULL), TT_OK);
    assert_int_equal(tt_safetensors_open_file(path, &st, &err), TT_OK);
    assert_int_equal(truncate(path, (long)(8 + sizeof json - 1 + 3)), 0);
    const tt_st_tensor *t = tt_safetensors_at(st, 0);
    assert_int_equal(tt_safetensors_read(st, t, 0, got, 8, &err), TT_ERR_FORMAT);
    assert_non_null(strstr(err.message, "tensor t: file is truncated"));
    tt_safetensors_close(&st);
}

/* ---- bad shards ---- */

static void refuses_bad_lengths(void **state)
{
    refused(TT_ERR_NOT_FOUND, dir, "not a checkpoint");
    put("model.safetensors", "\x02\0\0", 3);
    refused(TT_ERR_FORMAT, "model.safetensors", "too short");
    put("model.safetensors", "", 0);
    refused(TT_ERR_FORMAT, "model.safetensors", "too short");
    put("model.safetensors", "\x03\0\0\0\0\0\0\0{}", 10);
    refused(TT_ERR_FORMAT, "model.safetensors", "header claims 3 bytes, the file has 2");
    put("model.safetensors", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    refused(TT_ERR_LIMIT, "model.safetensors", "at most 134217728");
    put("model.safetensors", "\0\0\0\0\0\0\0\0", 8);
    refused(TT_ERR_FORMAT, "model.safetensors", "broken JSON");
}

static void refuses_broken_json(void **state)
{
    bad_header("{", 0, TT_ERR_FORMAT, "broken JSON");
    bad_header("{\"a\":", 0, TT_ERR_FORMAT, "broken JSON");
    bad_header("{}{}", 0, TT_ERR_FORMAT, "broken JSON near byte 1");
    bad_header("{} x", 0, TT_ERR_FORMAT, "broken JSON");
    bad_header("{\"a\" 1}", 0, TT_ERR_FORMAT, "broken JSON");
    bad_header("{/* c */}", 0, TT_ERR_FORMAT, "broken JSON");
    bad_header("{\"\xff\xfe\":{}}", 0, TT_ERR_FORMAT, "UTF8");
    bad_header("   ", 0, TT_ERR_FORMAT, "broken JSON");
    char nested[2000] = "{\"a\":{\"shape\":";
    memset(nested + strlen(nested), '[', 1500);
    bad_header(nested, 0, TT_ERR_FORMAT, "expected a whole number in shape, found an array");
}

static void refuses_other_json(void **state)
{
    bad_header("[]", 0, TT_ERR_FORMAT, "expected the header object, found an array");
    bad_header("7", 0, TT_ERR_FORMAT, "found a number");
    bad_header("null", 0, TT_ERR_FORMAT, "found null");
    bad_header("{\"a\":true}", 0, TT_ERR_FORMAT, "tensor a: expected an object");
    bad_header("{\"a\":{\"dtype\":5}}", 0, TT_ERR_FORMAT, "tensor a: expected a string for dtype");
    bad_header("{\"a\":{\"dtype\":{}}}", 0, TT_ERR_FORMAT, "found an object");
    bad_header("{\"a\":{\"shape\":\"\"}}", 0, TT_ERR_FORMAT, "expected an array for shape");
    bad_header("{\"a\":{\"shape\":[\"1\"]}}", 0, TT_ERR_FORMAT, "found a string");
    bad_header("{\"a\":{\"size\":1}}", 0, TT_ERR_FORMAT, "tensor a has the unknown key \"size\"");
    bad_header("{\"__metadata__\":[]}", 0, TT_ERR_FORMAT, "expected an object for __metadata__");
    bad_header("{\"__metadata__\":{\"a\":1}}", 0, TT_ERR_FORMAT, "a string in __metadata__");
    bad_header("{\"__metadata__\":{},\"__metadata__\":{}}", 0, TT_ERR_FORMAT, "twice");
}

static void refuses_bad_tensors(void **state)
{
    bad_header("{\"a\":{}}", 0, TT_ERR_FORMAT, "tensor a has no dtype");
    bad_header("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,0]}}", 0, TT_ERR_FORMAT, "no shape");
    bad_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", 0, TT_ERR_FORMAT, "no data_offsets");
    bad_header("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 0, TT_ERR_FORMAT, "dtype twice");
    bad_header("{" T("a", "F31", "[]", "[0,4]") "}", 4, TT_ERR_UNSUPPORTED,
               "tensor a has the unknown dtype \"F31\"");
    bad_header("{" T("a", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1, TT_ERR_LIMIT,
               "tensor a has more than 8 dimensions");
    bad_header("{" T("a", "U8", "[-1]", "[0,1]") "}", 1, TT_ERR_FORMAT, "-1 is not a whole");
    bad_header("{" T("a", "U8", "[1.0]", "[0,1]") "}", 1, TT_ERR_FORMAT, "1.0 is not a whole");
    bad_header("{" T("a", "U8", "[1e0]", "[0,1]") "}", 1, TT_ERR_FORMAT, "1e0 is not a whole");
    bad_header("{" T("a", "U8", "[18446744073709551616]", "[0,1]") "}", 1, TT_ERR_FORMAT,
               "18446744073709551616 is not a whole");
    bad_header("{" T("a", "F32", "[4294967296,4294967296]", "[0,1]") "}", 1, TT_ERR_FORMAT,
               "tensor a overflows");
    bad_header("{" T("a", "F32", "[9223372036854775808]", "[0,0]") "}", 0, TT_ERR_FORMAT,
               "tensor a overflows");
    bad_header("{" T("a", "U8", "[1]", "[0]") "}", 1, TT_ERR_FORMAT, "1 data_offsets, not two");
    bad_header("{" T("a", "U8", "[1]", "[0,1,1]") "}", 1, TT_ERR_FORMAT, "more than two");
    bad_header("{" T("", "U8", "[1]", "[0,1]") "}", 1, TT_ERR_FORMAT, "a tensor name of 0 bytes");
    bad_header("{" T("a\\u0000b", "U8", "[1]", "[0,1]") "}", 1, TT_ERR_FORMAT, "of 3 bytes");
    char longest[700] = "{\"";
    memset(longest + 2, 'n', 513);
    strcpy(longest + 515, "\":{}}");
    bad_header(longest, 0, TT_ERR_FORMAT, "a tensor name of 513 bytes");
}

static void refuses_bad_ranges(void **state)
{
    bad_header("{" T("a", "U8", "[2]", "[0,2]") "}", 1, TT_ERR_FORMAT,
               "tensor a has the bytes 0 to 2 of a data section of 1 bytes");
    bad_header("{" T("a", "U8", "[2]", "[18446744073709551614,18446744073709551615]") "}", 2,
               TT_ERR_FORMAT, "tensor a has the bytes 18446744073709551614");
    bad_header("{" T("a", "U8", "[1]", "[2,1]") "}", 2, TT_ERR_FORMAT, "the bytes 2 to 1");
    bad_header("{" T("a", "BF16", "[2]", "[0,2]") "}", 2, TT_ERR_FORMAT,
               "tensor a has 2 bytes of data, its shape and dtype need 4");
    bad_header("{" T("a", "U8", "[4]", "[0,4]") "," T("b", "U8", "[4]", "[2,6]") "}", 6,
               TT_ERR_FORMAT, "tensors a and b overlap by 2 bytes");
    bad_header("{" T("a", "U8", "[4]", "[0,4]") "," T("b", "U8", "[4]", "[0,4]") "}", 4,
               TT_ERR_FORMAT, "overlap by 4 bytes");
    bad_header("{" T("a", "U8", "[4]", "[0,4]") "," T("b", "U8", "[1]", "[5,6]") "}", 6,
               TT_ERR_FORMAT, "1 bytes before tensor b belong to no tensor");
    bad_header("{" T("a", "U8", "[1]", "[1,2]") "}", 2, TT_ERR_FORMAT, "before tensor a");
    bad_header("{" T("a", "U8", "[1]", "[0,1]") "}", 3, TT_ERR_FORMAT, "2 bytes at the end");
    bad_header("{" T("a", "U8", "[1]", "[0,1]") "," T("a", "U8", "[1]", "[1,2]") "}", 2,
               TT_ERR_FORMAT, "tensor a stands twice");
}

static void names_the_byte_of_a_fault(void **state)
{
    tt_error err = {0};
    const char json[] = "{" T("a", "U8", "[4]", "[0,4]") "," T("b", "U8", "[4]", "[2,6]") "}";
    put_shard("model.safetensors", json, sizeof json - 1, 6);
    assert_int_equal(open_dir(&err), TT_ERR_FORMAT);
    assert_int_equal(err.offset, 8 + sizeof json - 1 + 2);
    const char broken[] = "{" T("a", "U8", "[4]", "[0,4]") " \"b\":{}}";
    put_shard("model.safetensors", broken, sizeof broken - 1, 4);
    assert_int_equal(open_dir(&err), TT_ERR_FORMAT);
    long at = (long)(strstr(broken, "\"b\"") - broken);
    assert_in_range(err.offset, 8 + at, 8 + at + 3);
}

/* ---- indexes ---- */

#define SHARD_A "model-00001-of-00002.safetensors"
#define SHARD_B "model-00002-of-00002.safetensors"

static void put_pair(void)
{
    const char a[] = "{" T("one", "U8", "[2]", "[0,2]") "," T("two", "U8", "[1]", "[2,3]") "}";
    const char b[] = "{" T("three", "U8", "[4]", "[0,4]") "}";
    put_shard(SHARD_A, a, sizeof a - 1, 3);
    put_shard(SHARD_B, b, sizeof b - 1, 4);
}

static void put_index(const char *json)
{
    put("model.safetensors.index.json", json, strlen(json));
}

#define MAP(body) "{\"weight_map\":{" body "}}"
#define GOOD_MAP  "\"three\":\"" SHARD_B "\",\"one\":\"" SHARD_A "\",\"two\":\"" SHARD_A "\""

static void reads_shards_in_order_of_their_names(void **state)
{
    tt_safetensors *st = NULL;
    put_pair();
    put_index("{\"metadata\":{\"total_size\":7.5,\"x\":[{\"weight_map\":{}},[null,true]]},"
              "\"weight_map\":{" GOOD_MAP "},\"n\":null}");
    assert_int_equal(tt_safetensors_open_dir(dir, &st, NULL), TT_OK);
    assert_int_equal(tt_safetensors_shards(st), 2);
    assert_non_null(strstr(tt_safetensors_shard_path(st, 0), SHARD_A));
    assert_null(tt_safetensors_shard_path(st, 2));
    assert_string_equal(tt_safetensors_at(st, 0)->name, "one");
    assert_string_equal(tt_safetensors_at(st, 2)->name, "three");
    assert_int_equal(tt_safetensors_at(st, 2)->shard, 1);
    uint8_t got[2];
    assert_int_equal(tt_safetensors_read(st, tt_safetensors_at(st, 2), 2, got, 2, NULL), TT_OK);
    assert_memory_equal(got, "\x02\x03", 2);
    tt_safetensors_close(&st);
}

static void refuses_an_index_that_disagrees(void **state)
{
    put_pair();
    put_index(MAP("\"one\":\"" SHARD_A "\",\"three\":\"" SHARD_B "\""));
    refused(TT_ERR_FORMAT, SHARD_A, "tensor two is not in ");
    put_index(MAP(GOOD_MAP ",\"four\":\"" SHARD_B "\""));
    refused(TT_ERR_FORMAT, "index.json", "tensor four should be in " SHARD_B);
    put_index(MAP("\"one\":\"" SHARD_A "\",\"two\":\"" SHARD_B "\",\"three\":\"" SHARD_B "\""));
    refused(TT_ERR_FORMAT, SHARD_A, "has it in " SHARD_B);
    put_index(MAP(GOOD_MAP ",\"one\":\"" SHARD_A "\""));
    refused(TT_ERR_FORMAT, "index.json", "weight_map has tensor one twice");
    put_index(MAP(GOOD_MAP ",\"four\":\"model-00003-of-00002.safetensors\""));
    refused(TT_ERR_NOT_FOUND, "model-00003", "shard 3 of 3");
    put_shard(SHARD_B, "{" T("one", "U8", "[4]", "[0,4]") "}",
              strlen("{" T("one", "U8", "[4]", "[0,4]") "}"), 4);
    put_index(MAP("\"one\":\"" SHARD_A "\",\"two\":\"" SHARD_A "\",\"three\":\"" SHARD_B "\""));
    refused(TT_ERR_FORMAT, SHARD_B, "tensor one is here");
}

static void refuses_shards_elsewhere(void **state)
{
    static const char *const names[] = {"..", ".",       "../x.safetensors", "/etc/passwd",
                                        "",   "a\\/b.s", ".hidden",          "a\\u0000b"};
    put_pair();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char json[200];
        snprintf(json, sizeof json, MAP("\"one\":\"%s\""), names[i]);
        put_index(json);
        refused(TT_ERR_FORMAT, "index.json", "tensor one is in the shard \"");
    }
}

static void refuses_other_indexes(void **state)
{
    put_pair();
    put_index("{");
    refused(TT_ERR_FORMAT, "index.json", "broken JSON");
    put_index("");
    refused(TT_ERR_FORMAT, "index.json", "broken JSON");
    put_index("[]");
    refused(TT_ERR_FORMAT, "index.json", "expected the index object, found an array");
    put_index("{}");
    refused(TT_ERR_FORMAT, "index.json", "\"weight_map\" is missing");
    put_index(MAP(""));
    refused(TT_ERR_FORMAT, "index.json", "weight_map is empty");
    put_index("{\"weight_map\":[]}");
    refused(TT_ERR_FORMAT, "index.json", "expected an object for weight_map");
    put_index("{\"weight_map\":{\"one\":7}}");
    refused(TT_ERR_FORMAT, "index.json", "entry of tensor one: expected the file name");
    put_index("{\"weight_map\":{\"one\":{}}}");
    refused(TT_ERR_FORMAT, "index.json", "found an object");
    put_index("{\"weight_map\":{\"\":\"a\"}}");
    refused(TT_ERR_FORMAT, "index.json", "a tensor name of 0 bytes");
    put_index("{\"weight_map\":{" GOOD_MAP "},\"weight_map\":{}}");
    refused(TT_ERR_FORMAT, "index.json", "weight_map stands in the index twice");
    char nested[400] = "{\"x\":";
    memset(nested + 5, '[', 300);
    put_index(nested);
    refused(TT_ERR_LIMIT, "index.json", "nests deeper than 64");
    put_index(MAP(GOOD_MAP));
    assert_int_equal(open_dir(NULL), TT_OK);
}

static void a_dangling_index_is_not_overlooked(void **state)
{
    char path[TT_MAX_PATH];
    put_shard("model.safetensors", "{}", 2, 0);
    assert_int_equal(tt_path_join(path, dir, "model.safetensors.index.json", NULL), TT_OK);
    assert_int_equal(symlink("nowhere", path), 0);
    refused(TT_ERR_NOT_FOUND, "index.json", "cannot open");
}

/* ---- size ---- */

static void reads_a_hundred_thousand_tensors(void **state)
{
    enum { N = 92161 };
    tt_buf header, index;
    tt_buf_init(&header, TT_MAX_SAFETENSORS_HEADER);
    tt_buf_init(&index, TT_MAX_INDEX_JSON);
    tt_buf_putc(&header, '{');
    tt_buf_puts(&index, "{\"weight_map\":{");
    for (unsigned i = 0; i < N; i++) {
        tt_buf_printf(&header,
                      "%s\"model.layers.%u.mlp.experts.%u.gate_proj.weight_scale_inv\":{\"dtype\":"
                      "\"U8\",\"shape\":[1],\"data_offsets\":[%u,%u]}",
                      i > 0 ? "," : "", i / 512, i % 512, N - 1 - i, N - i);
        tt_buf_printf(&index,
                      "%s\"model.layers.%u.mlp.experts.%u.gate_proj.weight_scale_inv\":"
                      "\"model-00001-of-00001.safetensors\"",
                      i > 0 ? "," : "", i / 512, i % 512);
    }
    tt_buf_putc(&header, '}');
    tt_buf_puts(&index, "}}");
    assert_int_equal(tt_buf_status(&header, NULL), TT_OK);
    assert_int_equal(tt_buf_status(&index, NULL), TT_OK);
    put_shard("model-00001-of-00001.safetensors", header.data, header.len, N);
    put("model.safetensors.index.json", index.data, index.len);
    tt_safetensors *st = NULL;
    assert_int_equal(tt_safetensors_open_dir(dir, &st, NULL), TT_OK);
    assert_int_equal(tt_safetensors_count(st), N);
    const tt_st_tensor *t =
        tt_safetensors_find(st, "model.layers.0.mlp.experts.7.gate_proj.weight_scale_inv");
    uint8_t got;
    assert_int_equal(tt_safetensors_read(st, t, 0, &got, 1, NULL), TT_OK);
    assert_int_equal(got, (N - 1 - 7) % 256);
    tt_safetensors_close(&st);
    tt_buf_free(&header);
    tt_buf_free(&index);
}

/* ---- writer ---- */

static void writer_and_reader_agree(void **state)
{
    char path[TT_MAX_PATH];
    tt_st_writer *w = NULL;
    tt_safetensors *st = NULL;
    tt_error err = {0};
    const uint64_t shape[] = {2, 3};
    const char *odd = "a \"name\" with \\ and \xc3\xa9";
    assert_int_equal(tt_path_join(path, dir, "model.safetensors", NULL), TT_OK);
    assert_int_equal(tt_st_writer_create(path, &w, NULL), TT_OK);
    assert_int_equal(tt_st_writer_metadata(w, "format", "pt", NULL), TT_OK);
    assert_int_equal(tt_st_writer_declare(w, odd, TT_ST_U16, 2, shape, NULL), TT_OK);
    assert_int_equal(tt_st_writer_declare(w, "s", TT_ST_U8, 0, NULL, NULL), TT_OK);
    assert_int_equal(tt_st_writer_append(w, "abcdefghij", 10, NULL), TT_OK);
    assert_int_equal(tt_st_writer_declare(w, "late", TT_ST_U8, 0, NULL, &err), TT_ERR_STATE);
    assert_int_equal(tt_st_writer_append(w, "klmn", 4, &err), TT_ERR_INVALID);
    assert_int_equal(tt_st_writer_append(w, "klm", 3, NULL), TT_OK);
    assert_false(tt_file_exists(path));
    assert_int_equal(tt_st_writer_finish(&w, NULL), TT_OK);
    assert_null(w);
    assert_int_equal(tt_safetensors_open_dir(dir, &st, &err), TT_OK);
    const tt_st_tensor *t = tt_safetensors_find(st, odd);
    char got[12];
    assert_int_equal(t->offset % 8, 0);
    assert_int_equal(t->shape[1], 3);
    assert_int_equal(tt_safetensors_read(st, t, 0, got, 12, NULL), TT_OK);
    assert_memory_equal(got, "abcdefghijkl", 12);
    tt_safetensors_close(&st);
}

static void writer_publishes_whole_files_only(void **state)
{
    char path[TT_MAX_PATH];
    tt_st_writer *w = NULL;
    tt_error err = {0};
    const uint64_t shape[] = {4}, huge[] = {UINT64_MAX, 2};
    assert_int_equal(tt_path_join(path, dir, "model.safetensors", NULL), TT_OK);
    assert_int_equal(tt_st_writer_create(path, &w, NULL), TT_OK);
    assert_int_equal(tt_st_writer_declare(w, "x", TT_ST_F32, 2, huge, &err), TT_ERR_LIMIT);
    assert_int_equal(tt_st_writer_declare(w, "x", TT_ST_F32, 1, shape, NULL), TT_OK);
    assert_int_equal(tt_st_writer_append(w, "0123456789abcdef", 15, NULL), TT_OK);
    assert_int_equal(tt_st_writer_finish(&w, &err), TT_ERR_STATE);
    assert_null(w);
    assert_false(tt_file_exists(path));
    assert_int_equal(tt_st_writer_create(path, &w, NULL), TT_OK);
    assert_int_equal(tt_st_writer_append(w, "", 0, NULL), TT_OK);
    tt_st_writer_discard(&w);
    assert_int_equal(rmdir(dir), 0); /* nothing was left behind */
    assert_int_equal(tt_st_writer_create(path, &w, &err), TT_ERR_NOT_FOUND);
    tt_st_writer_discard(NULL);
}

#define IN_SCRATCH(f) cmocka_unit_test_setup_teardown(f, make_scratch, drop_scratch)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_the_shipped_checkpoint),
        IN_SCRATCH(reads_every_form_of_a_good_header),
        IN_SCRATCH(a_file_cut_after_opening_is_noticed_by_read),
        IN_SCRATCH(refuses_bad_lengths),
        IN_SCRATCH(refuses_broken_json),
        IN_SCRATCH(refuses_other_json),
        IN_SCRATCH(refuses_bad_tensors),
        IN_SCRATCH(refuses_bad_ranges),
        IN_SCRATCH(names_the_byte_of_a_fault),
        IN_SCRATCH(reads_shards_in_order_of_their_names),
        IN_SCRATCH(refuses_an_index_that_disagrees),
        IN_SCRATCH(refuses_shards_elsewhere),
        IN_SCRATCH(refuses_other_indexes),
        IN_SCRATCH(a_dangling_index_is_not_overlooked),
        IN_SCRATCH(reads_a_hundred_thousand_tensors),
        IN_SCRATCH(writer_and_reader_agree),
        IN_SCRATCH(writer_publishes_whole_files_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
