/* The native reader against a broker that sends anything: for sanitizers. Usage: check SECONDS SEED.
 *
 * A simulated librdkafka has messages with gaps, repetitions, nulls, headers of any bytes, errors and later leaders. Ranges
 * are read from it with any limits. The columns that Arrow gets are compared with what was sent, and released.
 */
#include <assert.h>
#include <pthread.h>
#include <time.h>

#include "fetch.h"

static uint64_t state;
static uint64_t any(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return below ? (state >> 33) % below : 0;
}

enum { MOST = 400, HEADERS = 5 };
struct sent {
    rd_kafka_message_t message; /* first, so that a pointer to it is one to the whole */
    int64_t timestamp;
    int kind, epoch;
    size_t header_count;
    struct {
        char *key;
        void *value;
        size_t size;
    } headers[HEADERS];
};
static struct sent *queue[MOST], *kept[MOST];
static size_t queued, served;
static long living;

/* Memory of exactly this size, so that a sanitizer sees each byte too many. */
static void *some(size_t size, bool text)
{
    uint8_t *bytes = malloc(size + text);
    assert(bytes != NULL || size + text == 0);
    for (size_t at = 0; at < size; at++)
        bytes[at] = (uint8_t)(text ? any(4) ? 'a' + any(26) : 1 + any(255) : any(256));
    if (text)
        bytes[size] = 0;
    return bytes;
}

static size_t any_size(void) { return any(60) == 0 ? any(70000) : any(40); }

static struct sent *new_message(int64_t offset)
{
    struct sent *sent = calloc(1, sizeof *sent);
    rd_kafka_message_t *message = &sent->message;
    message->offset = offset;
    if (any(30) == 0) {
        message->err = any(2) ? -191 : (int)any(80) + 1;
        message->offset = any(3) ? offset : -1001;
        return sent;
    }
    if (any(4))
        message->key = some(message->key_len = any_size(), any(2) == 0);
    if (any(6))
        message->payload = some(message->len = any_size(), false);
    sent->kind = (int)any(3);
    sent->timestamp = any(300) == 0 ? INT64_MAX - (int64_t)any(9) : (int64_t)any(1u << 31) - 1000;
    sent->epoch = (int)any(3) - 1;
    if (any(3) == 0)
        sent->header_count = any(HEADERS + 1);
    for (size_t at = 0; at < sent->header_count; at++) {
        sent->headers[at].key = some(any(9), true);
        if (any(3))
            sent->headers[at].value = some(sent->headers[at].size = any_size(), false);
    }
    return sent;
}

static void destroy(struct sent *sent)
{
    for (size_t at = 0; at < sent->header_count; at++) {
        free(sent->headers[at].key);
        free(sent->headers[at].value);
    }
    free(sent->message.key);
    free(sent->message.payload);
    free(sent);
}

/* -- the simulated librdkafka -------------------------------------------------------------------------------------- */

static rd_kafka_queue_t *get_partition(rd_kafka_t *client, const char *topic, int32_t number)
{
    (void)client, (void)topic, (void)number;
    living++;
    return (rd_kafka_queue_t *)&queued;
}
static void forward(rd_kafka_queue_t *from, rd_kafka_queue_t *to) { assert(from != NULL && to == NULL); }
static void queue_destroy(rd_kafka_queue_t *of)
{
    assert(of != NULL);
    living--;
}
enum { GONE = 1003 }; /* an error about the partition itself, which librdkafka gives to the callback of the client */
static error_cb_t *error_cb;
static int confluents_calls, raised;
static void confluents(rd_kafka_t *handle, int code, const char *text, void *opaque)
{
    assert(handle == NULL && code == GONE && text != NULL && opaque == &raised);
    confluents_calls++;
}
static int conf_get(const rd_kafka_conf_t *conf, const char *name, char *text, size_t *size)
{
    assert(conf == NULL && strcmp(name, "error_cb") == 0);
    return snprintf(text, *size, "%p", *(void **)&(error_cb_t *){confluents}) < 0;
}
static void conf_set_error_cb(rd_kafka_conf_t *conf, error_cb_t *found)
{
    assert(conf == NULL);
    error_cb = found;
}
static ssize_t consume(rd_kafka_queue_t *of, int timeout_ms, rd_kafka_message_t **messages, size_t most)
{
    assert(of != NULL && most >= 1 && most <= MOST_MESSAGES && (timeout_ms == 0 || most == 1));
    if (any(20) == 0) {
        error_cb(NULL, GONE, any(2) ? "gone" : NULL, NULL);
        raised = 1;
    }
    if (any(10) == 0)
        return any(2) ? 0 : -1;
    size_t count = 0, some_of = 1 + any(most);
    while (count < some_of && served < queued) {
        messages[count++] = &queue[served++]->message;
        living++;
    }
    return (ssize_t)count;
}
static const char *errstr(const rd_kafka_message_t *message)
{
    static char text[3000];
    memset(text, 0xc3, sizeof text - 1);
    return message->err == 7 ? NULL : message->err == 8 ? text : "an error";
}
static int64_t timestamp(const rd_kafka_message_t *message, int *kind)
{
    *kind = ((const struct sent *)message)->kind;
    return ((const struct sent *)message)->timestamp;
}
static int32_t epoch(const rd_kafka_message_t *message) { return ((const struct sent *)message)->epoch; }
static rd_kafka_resp_err_t headers(const rd_kafka_message_t *message, rd_kafka_headers_t **found)
{
    *found = (rd_kafka_headers_t *)message;
    return ((const struct sent *)message)->header_count ? 0 : -156;
}
static rd_kafka_resp_err_t header(const rd_kafka_headers_t *of, size_t at, const char **key, const void **value, size_t *size)
{
    const struct sent *sent = (const struct sent *)of;
    if (at >= sent->header_count)
        return -156;
    *key = sent->headers[at].key;
    *value = sent->headers[at].value;
    *size = sent->headers[at].size;
    return 0;
}
/* A message that the reader is done with stays as the truth to compare with; nothing of it may be used any more. */
static void message_destroy(rd_kafka_message_t *message)
{
    assert(message != NULL);
    living--;
}

/* -- comparing ----------------------------------------------------------------------------------------------------- */

static bool valid(const struct ArrowArray *array, int64_t at)
{
    const uint8_t *bits = array->buffers[0];
    return bits[at / 8] >> (at % 8) & 1;
}

static void same(const struct ArrowArray *array, int64_t at, const void *data, size_t size)
{
    const int32_t *offsets = array->buffers[1];
    assert(valid(array, at) == (data != NULL));
    assert((size_t)(offsets[at + 1] - offsets[at]) == (data ? size : 0));
    assert(size == 0 || data == NULL || memcmp((const char *)array->buffers[2] + offsets[at], data, size) == 0);
}

static void compare(struct rows *rows, struct sent **taken, int64_t count, bool has_headers)
{
    struct ArrowSchema schema;
    struct ArrowArray array;
    int64_t unreadable = rows->unreadable;
    assert(rows->count == count && export_schema(rows, &schema) == DONE && export_rows(rows, &array) == DONE);
    assert(array.length == count && array.n_children == (has_headers ? 6 : 5) && array.n_children == schema.n_children);
    int64_t keys = 0, values = 0, lists_of = 0;
    for (int64_t at = 0; at < count; at++) {
        const struct sent *sent = taken[at];
        keys += sent->message.key != NULL;
        values += sent->message.payload != NULL;
        lists_of += sent->header_count > 0;
        same(array.children[0], at, sent->message.key, sent->message.key_len);
        same(array.children[1], at, sent->message.payload, sent->message.len);
        assert(((const int64_t *)array.children[2]->buffers[1])[at] == sent->message.offset);
        assert(((const int64_t *)array.children[3]->buffers[1])[at] == (sent->kind ? sent->timestamp : -1));
        assert(((const int32_t *)array.children[4]->buffers[1])[at] == sent->kind - 1);
        if (!has_headers)
            continue;
        const int32_t *lists = array.children[5]->buffers[1];
        struct ArrowArray *items = array.children[5]->children[0];
        assert(valid(array.children[5], at) == (sent->header_count > 0));
        assert((size_t)(lists[at + 1] - lists[at]) == sent->header_count);
        bool readable = true;
        for (size_t each = 0; each < sent->header_count; each++) {
            const char *key = sent->headers[each].key;
            same(items->children[0], lists[at] + (int64_t)each, key, strlen(key));
            same(items->children[1], lists[at] + (int64_t)each, sent->headers[each].value, sent->headers[each].size);
            readable = readable && is_utf8(key, strlen(key));
        }
        assert(readable || (unreadable >= 0 && unreadable <= at));
        assert(unreadable != at || !readable);
    }
    assert(array.children[0]->null_count == count - keys && array.children[1]->null_count == count - values);
    assert(!has_headers || array.children[5]->null_count == count - lists_of);
    struct ArrowArray moved = *array.children[0]; /* as a reader of the interface may do */
    array.children[0]->release = NULL;
    if (any(2))
        moved.release(&moved), array.release(&array);
    else
        array.release(&array), moved.release(&moved);
    schema.release(&schema);
}

/* -- one range ----------------------------------------------------------------------------------------------------- */

static void read_range(struct partition *partition)
{
    int64_t offset = (int64_t)any(100), position = (int64_t)any(120), end = position + (int64_t)any(500);
    queued = 1 + any(MOST - 1);
    served = 0;
    for (size_t at = 0; at < queued; at++) {
        queue[at] = new_message(offset);
        offset += any(5) ? 1 : any(20) ? (int64_t)any(30) : -(int64_t)any(3);
        offset = offset < 0 ? 0 : offset;
    }
    assert(open_partition(partition, NULL, "topic", 0) == DONE);
    bool has_headers = any(2);
    int32_t last_epoch = (int32_t)any(3) - 1;
    int64_t expected = 0, before = position;
    size_t seen = 0;
    partition->rows.has_headers = has_headers;
    for (int rounds = 0; rounds < 100 && position < end; rounds++) {
        struct wanted wanted = {position, end, last_epoch, (int64_t)any(60), (int64_t)any(5) ? 100000 : (int64_t)any(300),
                                (double)any(100)};
        struct fetched fetched;
        int outcome = fetch(partition, &wanted, 1, &fetched);
        /* The same by the words: each message in turn, until the fetch has come so far. */
        before = position;
        while (before < fetched.position) {
            struct sent *sent = queue[seen++];
            assert(seen <= served);
            if (sent->message.err || sent->message.offset < before)
                continue;
            if (sent->message.offset < end)
                kept[expected++] = sent;
            before = sent->message.offset + 1;
        }
        bool is_gone = fetched.notice == CLIENT_ERROR && fetched.code == GONE;
        if (is_gone) {
            assert(raised && fetched.notice_offset == fetched.position);
            raised = 0;
        }
        for (bool found = fetched.notice == NONE || is_gone; !found;) {
            struct sent *sent = queue[seen++];
            assert(seen <= served);
            found = sent->message.err != 0 || sent->message.offset >= before;
            assert(!found || (sent->message.err != 0) == (fetched.notice == CLIENT_ERROR));
            assert(!found || fetched.notice == CLIENT_ERROR || (last_epoch >= 0 && sent->epoch > last_epoch));
        }
        assert(before == fetched.position && (fetched.first < 0) == (fetched.position == position));
        assert(partition->rows.count == expected);
        position = fetched.position;
        assert(outcome == DONE);
        if (fetched.notice == LATER_LEADER)
            assert(last_epoch >= 0 && fetched.notice_offset >= position && fetched.notice_offset < end);
        if (any(4) == 0) {
            struct rows taken = partition->rows;
            start_rows(&partition->rows, has_headers);
            compare(&taken, kept, expected, has_headers);
            expected = 0;
        }
    }
    if (any(2))
        compare(&partition->rows, kept, expected, has_headers);
    close_partition(partition);
    raised = 0;
    free_rows(&partition->rows);
    assert(living == 0); /* neither a message nor a queue is left, or a client could not be destroyed */
    for (size_t at = 0; at < queued; at++)
        destroy(queue[at]);
}

static void check_errors(void)
{
    guard_errors(NULL);
    error_cb(NULL, GONE, "outside of a fetch", &raised);
    assert(error_cb == on_error && confluents_calls == 1);
}

static void check_limits(void)
{
    struct rows rows;
    start_rows(&rows, true);
    static const char byte;
    struct record huge = {.value = &byte, .value_size = (size_t)INT32_MAX + 1};
    assert(push_record(&rows, &huge) == NO_ROOM && rows.count == 0); /* nothing of it is read */
    compare(&rows, NULL, 0, true); /* no rows at all */
    assert(is_utf8("aé€😀", 10) && !is_utf8("\xc0\x80", 2) && !is_utf8("\xed\xa0\x80", 3) && !is_utf8("\xf4\x90\x80\x80", 4) &&
           !is_utf8("\xe2\x82", 2) && !is_utf8("\xff", 1) && !is_utf8("\xe0\x80\x80", 3) && !is_utf8("\xf0\x80\x80\x80", 4));
}

int main(int count, char **arguments)
{
    assert(count == 3);
    time_t end = time(NULL) + atoi(arguments[1]);
    state = strtoull(arguments[2], NULL, 10);
    kafka.queue_get_partition = get_partition;
    kafka.queue_forward = forward;
    kafka.queue_destroy = queue_destroy;
    kafka.consume_batch_queue = consume;
    kafka.message_errstr = errstr;
    kafka.conf_get = conf_get;
    kafka.conf_set_error_cb = conf_set_error_cb;
    kafka.message_timestamp = timestamp;
    kafka.message_leader_epoch = epoch;
    kafka.message_headers = headers;
    kafka.header_get_all = header;
    kafka.message_destroy = message_destroy;
    struct partition *partition = calloc(1, sizeof *partition);
    start_rows(&partition->rows, false);
    check_errors();
    check_limits();
    long ranges = 0;
    do
        read_range(partition), ranges++;
    while (time(NULL) < end);
    free(partition->headers);
    free(partition);
    printf("%ld ranges\n", ranges);
    return 0;
}
