/* Fetching the records of one range from librdkafka into rows.
 *
 * No Python. librdkafka is reached by a table of its functions, which `reader.c` fills from the library that confluent's
 * client has loaded, and `tests/support/native/check.c` with functions of its own.
 */
#ifndef DYNAMIC_KAFKA_FETCH_H
#define DYNAMIC_KAFKA_FETCH_H

#include <stdio.h>
#include <sys/types.h>

#include "rows.h"

/* librdkafka's public types, as rdkafka.h has them since version 1.0. */
typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_headers_s rd_kafka_headers_t;
typedef int rd_kafka_resp_err_t;
typedef struct rd_kafka_message_s {
    rd_kafka_resp_err_t err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *_private;
} rd_kafka_message_t;

typedef rd_kafka_resp_err_t on_new_t(rd_kafka_t *, const rd_kafka_conf_t *, void *, char *, size_t);
typedef rd_kafka_resp_err_t on_destroy_t(rd_kafka_t *, void *);
typedef void error_cb_t(rd_kafka_t *, int, const char *, void *);

#define LIBRDKAFKA(each) \
    each(rd_kafka_queue_t *, queue_get_partition, (rd_kafka_t *, const char *, int32_t)) \
    each(void, queue_forward, (rd_kafka_queue_t *, rd_kafka_queue_t *)) \
    each(void, queue_destroy, (rd_kafka_queue_t *)) \
    each(ssize_t, consume_batch_queue, (rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t)) \
    each(const char *, message_errstr, (const rd_kafka_message_t *)) \
    each(int64_t, message_timestamp, (const rd_kafka_message_t *, int *)) \
    each(int32_t, message_leader_epoch, (const rd_kafka_message_t *)) \
    each(rd_kafka_resp_err_t, message_headers, (const rd_kafka_message_t *, rd_kafka_headers_t **)) \
    each(rd_kafka_resp_err_t, header_get_all, \
         (const rd_kafka_headers_t *, size_t, const char **, const void **, size_t *)) \
    each(void, message_destroy, (rd_kafka_message_t *)) \
    each(int, conf_get, (const rd_kafka_conf_t *, const char *, char *, size_t *)) \
    each(void, conf_set_error_cb, (rd_kafka_conf_t *, error_cb_t *)) \
    each(rd_kafka_resp_err_t, conf_interceptor_add_on_new, (rd_kafka_conf_t *, const char *, on_new_t *, void *)) \
    each(rd_kafka_resp_err_t, interceptor_add_on_destroy, (rd_kafka_t *, const char *, on_destroy_t *, void *))

#define DECLARE(result, name, arguments) result(*name) arguments;
static struct { LIBRDKAFKA(DECLARE) } kafka;
#undef DECLARE

enum { MOST_MESSAGES = 1000 };
/* Messages to take from the client at once: they hold the memory of whole answers of the broker until they are rows. */

/* One partition that is read: its queue, the messages that have arrived, and the rows made of them. */
struct partition {
    rd_kafka_queue_t *queue; /* NULL: none is read */
    rd_kafka_message_t *arrived[MOST_MESSAGES];
    size_t next, arrived_end;
    struct rows rows;
    struct header *headers;
    size_t header_room;
    int error; /* of the client, about this partition; 0: none */
    char error_text[256];
};

struct wanted {
    int64_t position, end;
    int32_t last_epoch; /* -1: any */
    int64_t rows, size; /* the room in the batch */
    double mean_size;
};

enum notice { NONE, CLIENT_ERROR, LATER_LEADER };
struct fetched {
    int64_t first, position; /* first: -1 without one */
    enum notice notice;
    int64_t notice_offset;
    int code;
    char text[1024];
};

/* -- errors of the client ------------------------------------------------------------------------------------------ */

static error_cb_t *confluents_error_cb;          /* one function for all clients of the process */
static _Thread_local struct partition *awaiting; /* the partition whose messages this thread waits for */

/* Take the place of confluent's function. librdkafka calls it while we wait for messages, too: if the topic is deleted,
 * for instance. Outside of its own calls, confluent's function ends the process.
 */
static void on_error(rd_kafka_t *handle, int code, const char *text, void *opaque)
{
    if (awaiting != NULL) {
        if (awaiting->error != 0)
            return; /* the first one is the cause of the others */
        awaiting->error = code;
        snprintf(awaiting->error_text, sizeof awaiting->error_text, "%s", text ? text : "");
    } else if (confluents_error_cb != NULL) {
        confluents_error_cb(handle, code, text, opaque);
    }
}

/* Guard the configuration of a client that is being made. librdkafka gives a pointer as text. */
static void guard_errors(rd_kafka_conf_t *conf)
{
    char text[64] = "";
    size_t size = sizeof text;
    error_cb_t *found = NULL;
    if (kafka.conf_get(conf, "error_cb", text, &size) == 0 && sscanf(text, "%p", (void **)&found) == 1 &&
        found != NULL && found != on_error)
        confluents_error_cb = found;
    kafka.conf_set_error_cb(conf, on_error);
}

/* -- messages ------------------------------------------------------------------------------------------------------ */

static void drop_arrived(struct partition *partition)
{
    while (partition->next < partition->arrived_end)
        kafka.message_destroy(partition->arrived[partition->next++]);
    partition->next = partition->arrived_end = 0;
}

/* Give back the queue and all messages, without which the client can be destroyed; the rows stay. */
static void close_partition(struct partition *partition)
{
    drop_arrived(partition);
    partition->error = 0;
    if (partition->queue == NULL)
        return;
    kafka.queue_destroy(partition->queue);
    partition->queue = NULL;
}

/* Take the queue of a partition for us: its messages no longer go to the consumer's own queue. */
static int open_partition(struct partition *partition, rd_kafka_t *client, const char *topic, int32_t number)
{
    close_partition(partition);
    partition->queue = kafka.queue_get_partition(client, topic, number);
    if (partition->queue == NULL)
        return NO_MEMORY;
    kafka.queue_forward(partition->queue, NULL);
    return DONE;
}

/* Wait until there is a message or the time is over, and take up to so many. */
static size_t await_messages(struct partition *partition, int timeout_ms, int64_t most)
{
    if (partition->next == partition->arrived_end) {
        size_t count = most > MOST_MESSAGES ? MOST_MESSAGES : most < 1 ? 1 : (size_t)most;
        awaiting = partition;
        ssize_t arrived = kafka.consume_batch_queue(partition->queue, timeout_ms, partition->arrived, count);
        awaiting = NULL;
        partition->next = 0;
        partition->arrived_end = arrived > 0 ? (size_t)arrived : 0;
    }
    return partition->arrived_end - partition->next;
}

/* Report an error of the client, behind all messages that arrived before it. */
static void take_error(struct partition *partition, struct fetched *fetched)
{
    if (partition->error == 0)
        return;
    fetched->notice = CLIENT_ERROR;
    fetched->notice_offset = fetched->position;
    fetched->code = partition->error;
    snprintf(fetched->text, sizeof fetched->text, "%s", partition->error_text);
    partition->error = 0;
}

static int push_message(struct partition *partition, const rd_kafka_message_t *message)
{
    struct record record = {.key = message->key, .key_size = message->key_len,
                            .value = message->payload, .value_size = message->len, .offset = message->offset};
    record.timestamp_ms = kafka.message_timestamp(message, &record.timestamp_kind);
    rd_kafka_headers_t *headers = NULL;
    if (partition->rows.has_headers && kafka.message_headers(message, &headers) == 0) {
        struct header header;
        size_t at = 0;
        for (; kafka.header_get_all(headers, at, &header.key, &header.value, &header.size) == 0; at++) {
            if (at == partition->header_room) {
                size_t room = at ? at * 2 : 16;
                struct header *more = realloc(partition->headers, room * sizeof header);
                if (more == NULL)
                    return NO_MEMORY;
                partition->headers = more;
                partition->header_room = room;
            }
            partition->headers[at] = header;
        }
        record.headers = partition->headers;
        record.header_count = at;
    }
    return push_record(&partition->rows, &record);
}

static int64_t room_for(const struct wanted *wanted, const struct fetched *fetched, int64_t rows, int64_t size,
                        double mean_size)
{
    int64_t left = wanted->end - fetched->position, fitting = (int64_t)((double)size / mean_size) + 1;
    int64_t most = rows < left ? rows : left;
    return most < fitting ? most : fitting;
}

/* Wait for one message, then add the records of the range that have arrived already, up to the next notice.
 *
 * More than one message is never waited for: librdkafka would wait for all, although the range may have fewer.
 */
static int fetch(struct partition *partition, const struct wanted *wanted, int timeout_ms, struct fetched *fetched)
{
    struct rows *rows = &partition->rows;
    int64_t most = 1, rows_end = rows->count + wanted->rows, size_end = (int64_t)rows->size + wanted->size;
    double mean_size = wanted->mean_size > 1 ? wanted->mean_size : 1;
    *fetched = (struct fetched){.first = -1, .position = wanted->position};
    while (rows->count < rows_end && (int64_t)rows->size < size_end && fetched->position < wanted->end) {
        if (await_messages(partition, timeout_ms, most) == 0) {
            take_error(partition, fetched);
            return DONE;
        }
        timeout_ms = 0;
        while (partition->next < partition->arrived_end) {
            rd_kafka_message_t *message = partition->arrived[partition->next];
            int64_t offset = message->offset;
            if (message->err != 0) {
                const char *text = kafka.message_errstr(message);
                fetched->notice = CLIENT_ERROR;
                fetched->notice_offset = offset < 0 ? 0 : offset;
                fetched->code = message->err;
                snprintf(fetched->text, sizeof fetched->text, "%s", text ? text : "");
            } else if (offset >= fetched->position && offset < wanted->end && wanted->last_epoch >= 0 &&
                       kafka.message_leader_epoch(message) > wanted->last_epoch) {
                fetched->notice = LATER_LEADER;
                fetched->notice_offset = offset;
            } else if (offset >= fetched->position) { /* else fetched before a seek */
                if (offset < wanted->end) {
                    if (rows->count >= rows_end || (int64_t)rows->size >= size_end)
                        return DONE; /* it is the first one of the next batch */
                    int outcome = push_message(partition, message);
                    if (outcome == NO_ROOM && rows->count > 0)
                        return DONE;
                    if (outcome != DONE) {
                        fetched->notice_offset = offset;
                        return outcome;
                    }
                }
                if (fetched->first < 0)
                    fetched->first = offset;
                fetched->position = offset + 1;
                if ((double)(message->len + message->key_len) > mean_size) /* large ones lower the number at once */
                    mean_size = (double)(message->len + message->key_len);
            }
            partition->next++;
            kafka.message_destroy(message);
            if (fetched->notice != NONE)
                return DONE;
            if (fetched->position >= wanted->end)
                return DONE; /* all others are behind the range, too */
        }
        most = room_for(wanted, fetched, rows_end - rows->count, size_end - (int64_t)rows->size, mean_size);
    }
    return DONE;
}

#endif
