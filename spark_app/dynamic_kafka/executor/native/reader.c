/* The Python module of the native reader: `dynamic_kafka.executor.native._reader`.
 *
 * It reads with a client that confluent's `Consumer` has made. librdkafka hands that client over by its interface for
 * plugins: this file is the plugin as well (`conf_init`). Decision 028 has the reasons.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include <dlfcn.h>
#include <pthread.h>

#include "fetch.h"

static const char NAME[] = "dynamic-kafka";

/* A client of librdkafka. Python has one reference, librdkafka another until it destroys the client.
 *
 * handle: NULL after that. The lock is held while messages are consumed.
 */
struct client {
    pthread_mutex_t lock;
    int references;
    rd_kafka_t *handle;
    struct partition partition;
};

static _Thread_local struct client *newest; /* the client that this thread has made last, until Python takes it */

static void release_client(struct client *client)
{
    if (__atomic_sub_fetch(&client->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    free_rows(&client->partition.rows);
    free(client->partition.headers);
    pthread_mutex_destroy(&client->lock);
    free(client);
}

/* -- librdkafka's interface for plugins ---------------------------------------------------------------------------- */

static rd_kafka_resp_err_t on_destroy(rd_kafka_t *handle, void *opaque)
{
    struct client *client = opaque;
    (void)handle;
    pthread_mutex_lock(&client->lock); /* waits for a fetch, at most for its time-out */
    close_partition(&client->partition);
    client->handle = NULL;
    pthread_mutex_unlock(&client->lock);
    release_client(client);
    return 0;
}

static rd_kafka_resp_err_t on_new(rd_kafka_t *handle, const rd_kafka_conf_t *conf, void *opaque, char *text, size_t size)
{
    struct client *client = calloc(1, sizeof *client);
    (void)opaque, (void)text, (void)size;
    if (client == NULL || pthread_mutex_init(&client->lock, NULL) != 0) {
        free(client);
        return 0; /* Python finds no client, and says so */
    }
    client->references = 1;
    client->handle = handle;
    start_rows(&client->partition.rows, false);
    guard_errors((rd_kafka_conf_t *)conf); /* the client's own; it calls no function of it yet */
    if (kafka.interceptor_add_on_destroy(handle, NAME, on_destroy, client) != 0) {
        release_client(client);
        return 0;
    }
    if (newest != NULL)
        release_client(newest);
    client->references = 2;
    newest = client;
    return 0;
}

__attribute__((visibility("default"))) rd_kafka_resp_err_t conf_init(rd_kafka_conf_t *conf, void **opaque, char *text,
                                                                      size_t size)
{
    (void)opaque, (void)text, (void)size;
    return kafka.conf_interceptor_add_on_new ? kafka.conf_interceptor_add_on_new(conf, NAME, on_new, NULL) : 0;
}

/* -- rows ---------------------------------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    struct rows rows;
} Taken;

static void free_capsule_schema(PyObject *capsule)
{
    struct ArrowSchema *schema = PyCapsule_GetPointer(capsule, "arrow_schema");
    if (schema != NULL && schema->release != NULL)
        schema->release(schema);
    free(schema);
}

static void free_capsule_array(PyObject *capsule)
{
    struct ArrowArray *array = PyCapsule_GetPointer(capsule, "arrow_array");
    if (array != NULL && array->release != NULL)
        array->release(array);
    free(array);
}

static PyObject *taken_arrow(PyObject *self, PyObject *arguments)
{
    struct rows *rows = &((Taken *)self)->rows;
    struct ArrowSchema *schema = calloc(1, sizeof *schema);
    struct ArrowArray *array = calloc(1, sizeof *array);
    PyObject *schemas = NULL, *arrays = NULL, *wanted = NULL, *both = NULL;
    if (!PyArg_ParseTuple(arguments, "|O", &wanted) || schema == NULL || array == NULL ||
        export_schema(rows, schema) != DONE || export_rows(rows, array) != DONE) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
    } else {
        schemas = PyCapsule_New(schema, "arrow_schema", free_capsule_schema);
        arrays = PyCapsule_New(array, "arrow_array", free_capsule_array);
    }
    if (schemas != NULL && arrays != NULL)
        both = PyTuple_Pack(2, schemas, arrays);
    if (schemas == NULL) {
        if (schema != NULL && schema->release != NULL)
            schema->release(schema);
        free(schema);
    }
    if (arrays == NULL) {
        if (array != NULL && array->release != NULL)
            array->release(array);
        free(array);
    }
    Py_XDECREF(schemas);
    Py_XDECREF(arrays);
    return both;
}

static void taken_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    free_rows(&((Taken *)self)->rows);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMethodDef taken_methods[] = {
    {"__arrow_c_array__", taken_arrow, METH_VARARGS, "Hand the rows over to Arrow, once."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot taken_slots[] = {
    {Py_tp_dealloc, taken_free}, {Py_tp_methods, taken_methods}, {Py_tp_doc, "Rows for Arrow."}, {0, NULL}};
static PyType_Spec taken_spec = {"dynamic_kafka.executor.native._reader.Taken", sizeof(Taken), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, taken_slots};
static PyObject *taken_type;

/* -- clients ------------------------------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    struct client *client;
} Client;

/* Lock the client. Return NULL with a Python error if librdkafka has destroyed it.
 *
 * No thread waits for Python's lock while it holds this one: `on_destroy` may wait the other way round.
 */
static struct client *lock(PyObject *self)
{
    struct client *client = ((Client *)self)->client;
    while (pthread_mutex_trylock(&client->lock) != 0) {
        Py_BEGIN_ALLOW_THREADS
        pthread_mutex_lock(&client->lock);
        pthread_mutex_unlock(&client->lock);
        Py_END_ALLOW_THREADS
    }
    if (client->handle != NULL)
        return client;
    pthread_mutex_unlock(&client->lock);
    PyErr_SetString(PyExc_RuntimeError, "the Kafka client is closed");
    return NULL;
}

static PyObject *client_open(PyObject *self, PyObject *arguments)
{
    const char *topic;
    int number;
    if (!PyArg_ParseTuple(arguments, "si", &topic, &number))
        return NULL;
    struct client *client = lock(self);
    if (client == NULL)
        return NULL;
    int outcome = open_partition(&client->partition, client->handle, topic, number);
    pthread_mutex_unlock(&client->lock);
    if (outcome != DONE)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *client_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct client *client = lock(self);
    if (client == NULL)
        return NULL;
    if (client->partition.queue != NULL) {
        drop_arrived(&client->partition);
        await_messages(&client->partition, 0, MOST_MESSAGES); /* what has arrived for the old assignment */
    }
    close_partition(&client->partition);
    free_rows(&client->partition.rows);
    pthread_mutex_unlock(&client->lock);
    Py_RETURN_NONE;
}

static PyObject *refused(int outcome, int64_t offset)
{
    if (outcome == NO_ROOM)
        return PyErr_Format(PyExc_OverflowError, "the record at offset %lld exceeds 2 GiB", (long long)offset);
    return PyErr_NoMemory();
}

static PyObject *client_fetch(PyObject *self, PyObject *arguments)
{
    long long position, end, rows, size;
    int last_epoch, headers, timeout_ms;
    double mean_size;
    if (!PyArg_ParseTuple(arguments, "LLiLLdpi", &position, &end, &last_epoch, &rows, &size, &mean_size, &headers,
                          &timeout_ms))
        return NULL;
    struct wanted wanted = {position, end, last_epoch, rows, size, mean_size};
    struct fetched fetched;
    struct client *client = lock(self);
    if (client == NULL)
        return NULL;
    struct partition *partition = &client->partition;
    if (partition->queue == NULL) {
        pthread_mutex_unlock(&client->lock);
        PyErr_SetString(PyExc_RuntimeError, "no partition is assigned");
        return NULL;
    }
    if (partition->rows.count == 0)
        partition->rows.has_headers = headers;
    int outcome;
    Py_BEGIN_ALLOW_THREADS
    outcome = fetch(partition, &wanted, timeout_ms, &fetched);
    rows = partition->rows.count;
    size = (long long)partition->rows.size;
    pthread_mutex_unlock(&client->lock);
    Py_END_ALLOW_THREADS
    if (outcome != DONE)
        return refused(outcome, fetched.notice_offset);
    PyObject *text = PyUnicode_DecodeUTF8(fetched.text, (Py_ssize_t)strlen(fetched.text), "replace");
    if (text == NULL)
        return NULL;
    return Py_BuildValue("LLLLiLiN", (long long)fetched.first, (long long)fetched.position, rows, size,
                         (int)fetched.notice, (long long)fetched.notice_offset, fetched.code, text);
}

static PyObject *client_take(PyObject *self, PyObject *unused)
{
    (void)unused;
    Taken *taken = (Taken *)PyType_GenericAlloc((PyTypeObject *)taken_type, 0);
    struct client *client = taken != NULL ? lock(self) : NULL;
    if (client == NULL) {
        Py_XDECREF((PyObject *)taken);
        return NULL;
    }
    taken->rows = client->partition.rows;
    start_rows(&client->partition.rows, false);
    pthread_mutex_unlock(&client->lock);
    return Py_BuildValue("NL", taken, (long long)taken->rows.unreadable);
}

static void client_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    release_client(((Client *)self)->client);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMethodDef client_methods[] = {
    {"open", client_open, METH_VARARGS, "open(topic, partition): take a partition's messages."},
    {"close", client_close, METH_NOARGS, "Give the partition back, and drop all that was fetched."},
    {"fetch", client_fetch, METH_VARARGS,
     "fetch(position, end, last_epoch, rows, size, mean_size, headers, timeout_ms): add records; return (first,"
     " position, rows, size, notice, offset, code, text)."},
    {"take", client_take, METH_NOARGS, "Return the rows so far, and the first of them with unreadable headers or -1."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot client_slots[] = {
    {Py_tp_dealloc, client_free}, {Py_tp_methods, client_methods}, {Py_tp_doc, "A client to read with."}, {0, NULL}};
static PyType_Spec client_spec = {"dynamic_kafka.executor.native._reader.Client", sizeof(Client), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, client_slots};
static PyObject *client_type;

/* -- the module ---------------------------------------------------------------------------------------------------- */

/* load(path): find librdkafka's functions in a loaded module, or in what that has loaded. */
static PyObject *load(PyObject *module, PyObject *path)
{
    (void)module;
    PyObject *bytes;
    if (!PyUnicode_FSConverter(path, &bytes))
        return NULL;
    void *library = dlopen(PyBytes_AsString(bytes), RTLD_LAZY | RTLD_NOLOAD);
    Py_DECREF(bytes);
    if (library == NULL)
        return PyErr_Format(PyExc_ImportError, "confluent's client is not loaded: %s", dlerror());
    const char *missing = NULL;
    /* dlsym gives a `void *`, which C does not convert to a pointer to a function. */
#define FIND(result, name, arguments) \
    if ((*(void **)&kafka.name = dlsym(library, "rd_kafka_" #name)) == NULL) \
        missing = "rd_kafka_" #name;
    LIBRDKAFKA(FIND)
#undef FIND
    if (missing != NULL)
        return PyErr_Format(PyExc_ImportError, "confluent's librdkafka has no %s", missing);
    Py_RETURN_NONE; /* the library stays open */
}

static PyObject *forget(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    if (newest != NULL)
        release_client(newest);
    newest = NULL;
    Py_RETURN_NONE;
}

static PyObject *claim(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    if (newest == NULL)
        Py_RETURN_NONE;
    Client *made = (Client *)PyType_GenericAlloc((PyTypeObject *)client_type, 0);
    if (made == NULL)
        return NULL;
    made->client = newest;
    newest = NULL;
    return (PyObject *)made;
}

static PyMethodDef methods[] = {
    {"load", load, METH_O, "load(path): find librdkafka in the loaded module of confluent's client."},
    {"forget", forget, METH_NOARGS, "Forget the client that this thread has made last."},
    {"claim", claim, METH_NOARGS, "Return the client that this thread has made last, None without one."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_reader", "The native reader.", -1, methods,
                                        NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__reader(void)
{
    taken_type = PyType_FromSpec(&taken_spec);
    client_type = PyType_FromSpec(&client_spec);
    return taken_type != NULL && client_type != NULL ? PyModule_Create(&definition) : NULL;
}
