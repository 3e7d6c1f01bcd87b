/* Proves the laws of the store of responses: how many and how much, the oldest first, items that
 * are shared and weigh once, what is forgotten while it is read, threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "server/response_store.h"

static tt_response_store *s;

static tt_response_store_view look(void)
{
    tt_response_store_view view;
    tt_response_store_look(s, &view);
    return view;
}

static void add_new(tt_item_list *list, const char *id, size_t len)
{
    static const char zeros[1 << 16];
    assert_true(len <= sizeof zeros);
    assert_true(tt_item_list_add(s, list, tt_stored_item_new(id, zeros, len)));
}

static bool put(const char *id, const tt_item_list *input, const tt_item_list *output)
{
    tt_buf head, tail;
    tt_buf_init(&head, 64);
    tt_buf_init(&tail, 64);
    tt_buf_printf(&head, "<%s>", id);
    tt_buf_puts(&tail, "</>");
    bool kept = tt_response_store_put(s, id, &head, &tail, input, output);
    tt_buf_free(&head);
    tt_buf_free(&tail);
    return kept;
}

/* A response that reads nothing and answers one item of that length. */
static bool put_one(const char *id, size_t len)
{
    tt_item_list none = {0}, output = {0};
    char item[80];
    snprintf(item, sizeof item, "item_%s", id);
    add_new(&output, item, len);
    bool kept = put(id, &none, &output);
    tt_item_list_free(s, &output);
    return kept;
}

static bool is_there(const char *id)
{
    const tt_stored_response *r = tt_response_store_get(s, id);
    tt_response_store_release(s, r);
    return r != NULL;
}

static void what_was_put_is_there(void **state)
{
    (void)state;
    s = tt_response_store_create(4, 1 << 20);
    tt_item_list input = {0}, output = {0};
    add_new(&input, "a", 3);
    add_new(&input, "b", 4);
    add_new(&output, "c", 5);
    assert_true(put("r", &input, &output));
    tt_item_list_free(s, &input);
    tt_item_list_free(s, &output);
    const tt_stored_response *r = tt_response_store_get(s, "r");
    assert_non_null(r);
    assert_int_equal(r->n_input, 2);
    assert_int_equal(r->n_items, 3);
    assert_string_equal(r->items[2]->id, "c");
    assert_int_equal(r->items[2]->len, 5);
    assert_memory_equal(r->head, "<r>", 3);
    assert_memory_equal(r->tail, "</>", 3);
    tt_response_store_release(s, r);
    assert_null(tt_response_store_get(s, "q"));
    tt_stored_item *item = tt_response_store_item(s, "b");
    assert_non_null(item);
    tt_response_store_drop_item(s, item);
    assert_null(tt_response_store_item(s, "d"));
    assert_true(tt_response_store_delete(s, "r"));
    assert_false(tt_response_store_delete(s, "r"));
    assert_null(tt_response_store_item(s, "b"));
    assert_int_equal(look().responses, 0);
    assert_int_equal(look().bytes, 0);
    tt_response_store_close(&s);
    assert_null(s);
    tt_response_store_close(&s);
}

static void the_oldest_are_forgotten_by_number(void **state)
{
    char id[16];
    (void)state;
    s = tt_response_store_create(3, 1 << 20);
    for (int i = 0; i < 10; i++) {
        snprintf(id, sizeof id, "r%d", i);
        assert_true(put_one(id, 10));
        assert_int_equal(look().responses, i < 3 ? i + 1 : 3);
    }
    assert_false(is_there("r6"));
    assert_true(is_there("r7") && is_there("r8") && is_there("r9"));
    /* From the middle and from the end, and then the next. */
    assert_true(tt_response_store_delete(s, "r8"));
    assert_true(tt_response_store_delete(s, "r9"));
    assert_true(put_one("s0", 10) && put_one("s1", 10) && put_one("s2", 10));
    assert_false(is_there("r7"));
    assert_true(is_there("s0") && is_there("s1") && is_there("s2"));
    tt_response_store_close(&s);
}

static void the_oldest_are_forgotten_by_weight(void **state)
{
    char id[16];
    (void)state;
    s = tt_response_store_create(1000, 100000);
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "r%d", i);
        assert_true(put_one(id, 9000));
        assert_true(look().bytes <= 100000);
    }
    assert_int_equal(look().responses, 10);
    assert_true(is_there("r90") && !is_there("r89"));
    tt_response_store_close(&s);
    s = tt_response_store_create(1000, 50000);
    /* One that could never be kept makes nobody go. */
    assert_true(put_one("small", 100));
    assert_false(put_one("large", 60000));
    assert_true(is_there("small"));
    tt_response_store_close(&s);
}

/* A chain of responses weighs what its new items weigh. */
static void shared_items_weigh_once(void **state)
{
    (void)state;
    s = tt_response_store_create(1000, 1 << 20);
    tt_item_list context = {0};
    char id[16];
    for (int i = 0; i < 100; i++) {
        tt_item_list output = {0};
        snprintf(id, sizeof id, "i%d", i);
        add_new(&output, id, 5000);
        snprintf(id, sizeof id, "r%d", i);
        assert_true(put(id, &context, &output));
        tt_item_list_free(s, &context);
        tt_item_list_free(s, &output);
        const tt_stored_response *r = tt_response_store_get(s, id);
        for (size_t k = 0; k < r->n_items; k++) {
            tt_response_store_hold_item(s, r->items[k]);
            assert_true(tt_item_list_add(s, &context, r->items[k]));
        }
        tt_response_store_release(s, r);
    }
    tt_item_list_free(s, &context);
    assert_int_equal(look().responses, 100);
    assert_true(look().bytes < 600000);
    /* The first can go, its items stay for the last. */
    for (int i = 0; i < 99; i++) {
        snprintf(id, sizeof id, "r%d", i);
        assert_true(tt_response_store_delete(s, id));
    }
    tt_stored_item *item = tt_response_store_item(s, "i0");
    assert_non_null(item);
    tt_response_store_drop_item(s, item);
    assert_true(look().bytes > 500000);
    assert_true(tt_response_store_delete(s, "r99"));
    assert_int_equal(look().bytes, 0);
    tt_response_store_close(&s);
}

static void what_is_read_stays_and_counts(void **state)
{
    (void)state;
    s = tt_response_store_create(10, 50000);
    assert_true(put_one("a", 30000));
    const tt_stored_response *a = tt_response_store_get(s, "a");
    tt_stored_item *item = tt_response_store_item(s, "item_a");
    /* Room would be there only without what is held. */
    assert_false(put_one("b", 30000));
    assert_false(is_there("a"));
    assert_null(tt_response_store_item(s, "item_a"));
    assert_int_equal(a->items[0]->len, 30000);
    assert_ptr_equal(a->items[0], item);
    assert_int_equal(item->text[29999], 0);
    assert_true(look().bytes > 30000);
    tt_response_store_release(s, a);
    assert_true(look().bytes > 30000);
    tt_response_store_drop_item(s, item);
    assert_int_equal(look().bytes, 0);
    assert_true(put_one("b", 30000));
    tt_response_store_close(&s);
}

/* The newest of one id is found, and the older one again when that goes. */
static void ids_may_come_twice(void **state)
{
    (void)state;
    s = tt_response_store_create(10, 1 << 20);
    tt_item_list none = {0};
    for (int i = 1; i <= 2; i++) {
        tt_item_list output = {0};
        add_new(&output, "same", (size_t)i);
        assert_true(put(i == 1 ? "a" : "b", &none, &output));
        tt_item_list_free(s, &output);
    }
    for (int i = 2; i >= 1; i--) {
        tt_stored_item *item = tt_response_store_item(s, "same");
        assert_int_equal(item->len, i);
        tt_response_store_drop_item(s, item);
        assert_true(tt_response_store_delete(s, i == 1 ? "a" : "b"));
    }
    assert_null(tt_response_store_item(s, "same"));
    tt_response_store_close(&s);
}

static void *use(void *ctx)
{
    char id[32], other[32];
    for (int i = 0; i < 2000; i++) {
        snprintf(id, sizeof id, "%s%d", (const char *)ctx, i);
        (void)put_one(id, 100);
        snprintf(other, sizeof other, "item_%s%d", i % 2 ? "a" : "b", i > 3 ? i - 3 : 0);
        tt_stored_item *item = tt_response_store_item(s, other);
        const tt_stored_response *r = tt_response_store_get(s, other + 5);
        if (i % 5 == 0)
            (void)tt_response_store_delete(s, other + 5);
        if (r != NULL && r->items[0]->len != 100)
            return s;
        tt_response_store_release(s, r);
        tt_response_store_drop_item(s, item);
    }
    return NULL;
}

static void threads_share_it(void **state)
{
    pthread_t threads[2];
    void *wrong;
    (void)state;
    s = tt_response_store_create(8, 1 << 20);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use, i == 0 ? "a" : "b"), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    assert_true(look().responses <= 8);
    tt_response_store_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_is_there),
        cmocka_unit_test(the_oldest_are_forgotten_by_number),
        cmocka_unit_test(the_oldest_are_forgotten_by_weight),
        cmocka_unit_test(shared_items_weigh_once),
        cmocka_unit_test(what_is_read_stays_and_counts),
        cmocka_unit_test(ids_may_come_twice),
        cmocka_unit_test(threads_share_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
