/* Rows of Kafka records as columns in memory, handed over by the Arrow C data interface.
 *
 * No Kafka client and no Python: `tests/support/native/check.c` includes this file and runs it under sanitizers.
 */
#ifndef DYNAMIC_KAFKA_ROWS_H
#define DYNAMIC_KAFKA_ROWS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The Arrow C data interface, as its specification gives it. */
#define ARROW_FLAG_NULLABLE 2
struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};
struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

enum { DONE = 0, NO_MEMORY = -1, NO_ROOM = -2 };
/* Outcomes. NO_ROOM: Arrow's 32-bit offsets cannot address the record behind those that are there already. */

struct header {
    const char *key;
    const void *value; /* NULL: no value */
    size_t size;
};

struct record {
    const void *key, *value; /* NULL: none */
    size_t key_size, value_size;
    int64_t offset, timestamp_ms;
    int timestamp_kind; /* librdkafka's: 0 none, 1 create time, 2 append time */
    const struct header *headers;
    size_t header_count;
};

/* -- growing memory ------------------------------------------------------------------------------------------------ */

struct bytes {
    uint8_t *data;
    size_t used, room;
};

static int reserve(struct bytes *bytes, size_t more)
{
    size_t needed = bytes->used + more, room = bytes->room ? bytes->room : 1024;
    if (needed < more)
        return NO_MEMORY;
    if (needed <= bytes->room)
        return DONE;
    while (room < needed)
        room = room > (SIZE_MAX >> 1) || room > (64u << 20) ? needed : room * 2; /* large records grow to their size */
    uint8_t *data = realloc(bytes->data, room);
    if (data == NULL)
        return NO_MEMORY;
    bytes->data = data;
    bytes->room = room;
    return DONE;
}

static int push(struct bytes *bytes, const void *data, size_t size)
{
    if (reserve(bytes, size) != DONE)
        return NO_MEMORY;
    if (size > 0)
        memcpy(bytes->data + bytes->used, data, size);
    bytes->used += size;
    return DONE;
}

static int push_bit(struct bytes *bitmap, int64_t at, bool bit)
{
    if (at % 8 == 0 && push(bitmap, "\0", 1) != DONE)
        return NO_MEMORY;
    if (bit)
        bitmap->data[at / 8] |= (uint8_t)(1u << (at % 8));
    return DONE;
}

/* -- columns ------------------------------------------------------------------------------------------------------- */

/* A column of byte strings, or of texts. */
struct strings {
    struct bytes valid, offsets, data;
    int64_t count, nulls;
};

static int push_string(struct strings *strings, const void *data, size_t size)
{
    if (strings->count == 0 && push(&strings->offsets, &(int32_t){0}, sizeof(int32_t)) != DONE)
        return NO_MEMORY;
    if (push_bit(&strings->valid, strings->count, data != NULL) != DONE)
        return NO_MEMORY;
    if (data == NULL)
        strings->nulls++;
    else if (push(&strings->data, data, size) != DONE)
        return NO_MEMORY;
    int32_t end = (int32_t)strings->data.used; /* `fits` has checked it */
    strings->count++;
    return push(&strings->offsets, &end, sizeof end);
}

static bool fits(const struct strings *strings, size_t more)
{
    return more <= INT32_MAX && strings->data.used <= (size_t)INT32_MAX - more;
}

static void free_strings(struct strings *strings)
{
    free(strings->valid.data);
    free(strings->offsets.data);
    free(strings->data.data);
    memset(strings, 0, sizeof *strings);
}

/* Records of one split.
 *
 * has_headers: headers are kept; lists: where the headers of each record end.
 * unreadable: index of the first record with a header key that is not UTF-8; -1 without one.
 */
struct rows {
    bool has_headers;
    int64_t count, list_nulls, unreadable;
    size_t size;
    struct strings key, value, header_key, header_value;
    struct bytes offsets, timestamps, kinds, lists, list_valid;
};

static void start_rows(struct rows *rows, bool has_headers)
{
    memset(rows, 0, sizeof *rows);
    rows->has_headers = has_headers;
    rows->unreadable = -1;
}

static void free_rows(struct rows *rows)
{
    free_strings(&rows->key);
    free_strings(&rows->value);
    free_strings(&rows->header_key);
    free_strings(&rows->header_value);
    free(rows->offsets.data);
    free(rows->timestamps.data);
    free(rows->kinds.data);
    free(rows->lists.data);
    free(rows->list_valid.data);
    start_rows(rows, rows->has_headers);
}

static bool is_utf8(const char *text, size_t size)
{
    const uint8_t *at = (const uint8_t *)text, *end = at + size;
    while (at < end) {
        uint8_t first = *at++;
        if (first < 0x80)
            continue;
        int more = first >= 0xc2 && first < 0xe0 ? 1 : (first & 0xf0) == 0xe0 ? 2 : first >= 0xf0 && first < 0xf5 ? 3 : 0;
        if (more == 0 || end - at < more)
            return false;
        /* Neither longer than needed, nor a surrogate, nor behind U+10FFFF. */
        uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
        uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
        if (at[0] < low || at[0] > high)
            return false;
        for (int rest = 1; rest < more; rest++)
            if ((at[rest] & 0xc0) != 0x80)
                return false;
        at += more;
    }
    return true;
}

static int push_headers(struct rows *rows, const struct record *record)
{
    if (rows->count == 0 && push(&rows->lists, &(int32_t){0}, sizeof(int32_t)) != DONE)
        return NO_MEMORY;
    for (size_t at = 0; at < record->header_count; at++) {
        const struct header *header = &record->headers[at];
        size_t size = strlen(header->key);
        if (rows->unreadable < 0 && !is_utf8(header->key, size))
            rows->unreadable = rows->count;
        if (push_string(&rows->header_key, header->key, size) != DONE ||
            push_string(&rows->header_value, header->value, header->size) != DONE)
            return NO_MEMORY;
    }
    int32_t end = (int32_t)rows->header_key.count;
    rows->list_nulls += record->header_count == 0; /* as Spark's own source shows a record without headers */
    if (push_bit(&rows->list_valid, rows->count, record->header_count > 0) != DONE)
        return NO_MEMORY;
    return push(&rows->lists, &end, sizeof end);
}

/* Add a record. After NO_MEMORY the rows can only be freed; after any other outcome they are whole. */
static int push_record(struct rows *rows, const struct record *record)
{
    size_t names = 0, values = 0;
    for (size_t at = 0; at < record->header_count; at++) {
        names += strlen(record->headers[at].key);
        values += record->headers[at].value ? record->headers[at].size : 0;
    }
    size_t key_size = record->key ? record->key_size : 0, value_size = record->value ? record->value_size : 0;
    if (!fits(&rows->key, key_size) || !fits(&rows->value, value_size) || !fits(&rows->header_key, names) ||
        !fits(&rows->header_value, values) || record->header_count > (size_t)(INT32_MAX - rows->header_key.count))
        return NO_ROOM;
    /* Without a timestamp, Spark's source shows -1 ms. */
    int64_t ms = record->timestamp_kind ? record->timestamp_ms : -1;
    int32_t kind = record->timestamp_kind - 1; /* Kafka and Spark use -1, 0, 1 */
    if (push_string(&rows->key, record->key, record->key_size) != DONE ||
        push_string(&rows->value, record->value, record->value_size) != DONE ||
        push(&rows->offsets, &record->offset, sizeof record->offset) != DONE ||
        push(&rows->timestamps, &ms, sizeof ms) != DONE || push(&rows->kinds, &kind, sizeof kind) != DONE ||
        (rows->has_headers && push_headers(rows, record) != DONE))
        return NO_MEMORY;
    rows->count++;
    rows->size += key_size + value_size + names + values;
    return DONE;
}

/* -- the Arrow C data interface ------------------------------------------------------------------------------------ */

static void release_schema(struct ArrowSchema *schema)
{
    for (int64_t at = 0; at < schema->n_children; at++) {
        if (schema->children[at] != NULL && schema->children[at]->release != NULL)
            schema->children[at]->release(schema->children[at]);
        free(schema->children[at]);
    }
    free(schema->children);
    schema->release = NULL;
}

static int make_schema(struct ArrowSchema *schema, const char *format, const char *name, int64_t children)
{
    *schema = (struct ArrowSchema){.format = format, .name = name, .flags = ARROW_FLAG_NULLABLE,
                                   .n_children = children, .release = release_schema};
    if (children == 0)
        return DONE;
    schema->children = calloc((size_t)children, sizeof *schema->children);
    if (schema->children == NULL)
        schema->n_children = 0;
    for (int64_t at = 0; at < schema->n_children; at++)
        if ((schema->children[at] = calloc(1, sizeof(struct ArrowSchema))) == NULL)
            return NO_MEMORY;
    return schema->children ? DONE : NO_MEMORY;
}

static int export_schema(const struct rows *rows, struct ArrowSchema *out)
{
    int failed = make_schema(out, "+s", "", rows->has_headers ? 6 : 5);
    if (!failed) {
        make_schema(out->children[0], "z", "key", 0);
        make_schema(out->children[1], "z", "value", 0);
        make_schema(out->children[2], "l", "offset", 0);
        make_schema(out->children[3], "tsm:UTC", "timestamp", 0);
        make_schema(out->children[4], "i", "timestampType", 0);
    }
    if (!failed && rows->has_headers) {
        struct ArrowSchema *list = out->children[5];
        failed = make_schema(list, "+l", "headers", 1) || make_schema(list->children[0], "+s", "item", 2);
        if (!failed) {
            /* A text has to be UTF-8. */
            make_schema(list->children[0]->children[0], rows->unreadable < 0 ? "u" : "z", "key", 0);
            make_schema(list->children[0]->children[1], "z", "value", 0);
        }
    }
    if (failed)
        release_schema(out);
    return failed ? NO_MEMORY : DONE;
}

static void release_array(struct ArrowArray *array)
{
    for (int64_t at = 0; at < array->n_children; at++) {
        if (array->children[at] != NULL && array->children[at]->release != NULL)
            array->children[at]->release(array->children[at]);
        free(array->children[at]);
    }
    free(array->children);
    for (int64_t at = 0; at < array->n_buffers; at++)
        free((void *)array->buffers[at]);
    free(array->buffers);
    array->release = NULL;
}

/* Make an array that owns up to three buffers, of which it takes the memory. On failure it owns nothing. */
static int make_array(struct ArrowArray *array, int64_t length, int64_t nulls, struct bytes **buffers, int64_t count,
                      int64_t children)
{
    *array = (struct ArrowArray){.length = length, .null_count = nulls, .n_buffers = count, .n_children = children,
                                 .release = release_array};
    array->buffers = calloc((size_t)count, sizeof *array->buffers);
    array->children = children ? calloc((size_t)children, sizeof *array->children) : NULL;
    bool failed = array->buffers == NULL || (children && array->children == NULL);
    for (int64_t at = 0; !failed && at < children; at++)
        failed = (array->children[at] = calloc(1, sizeof(struct ArrowArray))) == NULL;
    for (int64_t at = 0; !failed && at < count; at++) {
        if (buffers[at] == NULL)
            continue; /* no nulls */
        /* Arrow wants memory also for no bytes. */
        failed = buffers[at]->data == NULL && reserve(buffers[at], 8) != DONE;
    }
    if (failed) {
        array->n_buffers = 0;
        if (array->children == NULL)
            array->n_children = 0;
        release_array(array);
        return NO_MEMORY;
    }
    for (int64_t at = 0; at < count; at++)
        if (buffers[at] != NULL) {
            array->buffers[at] = buffers[at]->data;
            *buffers[at] = (struct bytes){0};
        }
    return DONE;
}

static int make_strings(struct ArrowArray *array, struct strings *strings)
{
    if (strings->count == 0 && push(&strings->offsets, &(int32_t){0}, sizeof(int32_t)) != DONE)
        return NO_MEMORY;
    struct bytes *buffers[] = {&strings->valid, &strings->offsets, &strings->data};
    return make_array(array, strings->count, strings->nulls, buffers, 3, 0);
}

static int make_numbers(struct ArrowArray *array, struct bytes *numbers, int64_t count)
{
    struct bytes *buffers[] = {NULL, numbers};
    return make_array(array, count, 0, buffers, 2, 0);
}

/* Hand the rows over as a struct array; the rows are empty after that. */
static int export_rows(struct rows *rows, struct ArrowArray *out)
{
    struct bytes *none[] = {NULL}, *lists[] = {&rows->list_valid, &rows->lists};
    int64_t count = rows->count;
    int failed = make_array(out, count, 0, none, 1, rows->has_headers ? 6 : 5);
    if (failed)
        return NO_MEMORY;
    failed = make_strings(out->children[0], &rows->key) || make_strings(out->children[1], &rows->value) ||
             make_numbers(out->children[2], &rows->offsets, count) ||
             make_numbers(out->children[3], &rows->timestamps, count) ||
             make_numbers(out->children[4], &rows->kinds, count);
    if (!failed && rows->has_headers) {
        struct ArrowArray *list = out->children[5];
        if (count == 0)
            failed = push(&rows->lists, &(int32_t){0}, sizeof(int32_t));
        int64_t headers = rows->header_key.count;
        failed = failed || make_array(list, count, rows->list_nulls, lists, 2, 1) ||
                 make_array(list->children[0], headers, 0, none, 1, 2) ||
                 make_strings(list->children[0]->children[0], &rows->header_key) ||
                 make_strings(list->children[0]->children[1], &rows->header_value);
    }
    if (failed)
        release_array(out);
    free_rows(rows);
    return failed ? NO_MEMORY : DONE;
}

#endif
