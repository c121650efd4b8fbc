/* The server: HTTP/3 by picoquic's own h3zero; HTTP/0.9 (hq-interop), which the object has not, by us. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "endpoint.h"

#define HQ "hq-interop"
/* The error code with which a request is turned down; hq-interop defines none. */
#define REJECTED 0x10b
/* Where the server wants its clients once the handshake is over, at the same addresses. */
#define PREFERRED_PORT 4443

static const struct options *serving;
static struct st_picohttp_server_parameters_t web;

/* A request of hq-interop, and the file it is for. */
struct request {
    char line[2048];
    size_t length;
    int file;
    uint64_t sent, size;
};

static void let_go(struct request *request)
{
    if (request && request->file >= 0)
        close(request->file);
    free(request);
}

/* Opens the file that "GET /path" names below the root; false for anything else. */
static bool open_file(struct request *request)
{
    char *path, *end = request->line + request->length;
    struct stat status;
    while (end > request->line && (end[-1] == '\n' || end[-1] == '\r' || end[-1] == ' '))
        end--;
    *end = 0;
    if (strncmp(request->line, "GET /", 5) || strstr(request->line, "/../"))
        return false;
    if (asprintf(&path, "%s/%s", serving->root, request->line + 5) < 0)
        return false;
    request->file = open(path, O_RDONLY | O_CLOEXEC);
    if (request->file < 0 || fstat(request->file, &status) || !S_ISREG(status.st_mode)) {
        fprintf(stderr, "picoquic-endpoint: no such file: %s\n", path);
        free(path);
        return false;
    }
    free(path);
    request->size = (uint64_t)status.st_size;
    return true;
}

/* Takes in a part of a request, and starts the answer once it is whole. */
static int hq_read(struct st_picoquic_cnx_t *cnx, uint64_t stream, const uint8_t *bytes, size_t length, bool is_last,
                   struct request *request)
{
    if (!request) {
        request = calloc(1, sizeof *request);
        if (!request)
            return -1;
        request->file = -1;
    }
    if (request->file >= 0)
        return 0; /* what follows the line is of no interest */
    size_t room = sizeof request->line - 1 - request->length;
    bool fits = length <= room;
    memcpy(request->line + request->length, bytes, fits ? length : room);
    request->length += fits ? length : room;
    bool is_whole = is_last || memchr(request->line, '\n', request->length);
    if (fits && !is_whole)
        return picoquic_set_app_stream_ctx(cnx, stream, request);
    if (!fits || !open_file(request)) {
        let_go(request);
        picoquic_set_app_stream_ctx(cnx, stream, NULL);
        return picoquic_reset_stream(cnx, stream, REJECTED);
    }
    return picoquic_mark_active_stream(cnx, stream, 1, request);
}

/* Fills a packet. */
static int hq_write(void *packet, size_t room, struct request *request)
{
    uint64_t left = request ? request->size - request->sent : 0;
    size_t length = left < room ? (size_t)left : room;
    uint8_t *to = picoquic_provide_stream_data_buffer(packet, length, length == left, length < left);
    if (length && (!to || pread(request->file, to, length, (off_t)request->sent) != (ssize_t)length))
        return -1;
    if (request)
        request->sent += length;
    return 0;
}

static int hq(struct st_picoquic_cnx_t *cnx, uint64_t stream, uint8_t *bytes, size_t length, int event, void *context,
              void *stream_context)
{
    (void)context;
    switch (event) {
    case picoquic_callback_stream_data:
    case picoquic_callback_stream_fin:
        return hq_read(cnx, stream, bytes, length, event == picoquic_callback_stream_fin, stream_context);
    case picoquic_callback_prepare_to_send:
        return hq_write(bytes, length, stream_context);
    case picoquic_callback_stream_reset:
    case picoquic_callback_stop_sending:
        return picoquic_reset_stream(cnx, stream, 0);
    case picoquic_callback_stream_released:
        let_go(stream_context);
        return 0;
    case picoquic_callback_almost_ready:
        set_initial_window(cnx);
        return 0;
    case picoquic_callback_close:
    case picoquic_callback_application_close:
    case picoquic_callback_stateless_reset:
        picoquic_set_callback(cnx, NULL, NULL);
        return 0;
    default:
        return 0;
    }
}

static int http3(struct st_picoquic_cnx_t *cnx, uint64_t stream, uint8_t *bytes, size_t length, int event,
                 void *context, void *stream_context)
{
    if (event == picoquic_callback_almost_ready)
        set_initial_window(cnx);
    return h3zero_callback(cnx, stream, bytes, length, event, context, stream_context);
}

/* The first event of a connection: from here on it is its protocol's. */
static int accept_connection(struct st_picoquic_cnx_t *cnx, uint64_t stream, uint8_t *bytes, size_t length, int event,
                             void *context, void *stream_context)
{
    const char *protocol = picoquic_tls_get_negotiated_alpn(cnx);
    if (!protocol)
        return 0; /* it ended before it had one */
    if (strcmp(protocol, HQ)) {
        struct st_h3zero_callback_ctx_t *session = h3zero_callback_create_context(&web);
        if (!session)
            return -1;
        session->no_print = 1;
        picoquic_set_callback(cnx, http3, session);
        int error = h3zero_protocol_init_safe(cnx, session);
        return error ? error : http3(cnx, stream, bytes, length, event, session, stream_context);
    }
    picoquic_set_callback(cnx, hq, NULL);
    return hq(cnx, stream, bytes, length, event, context, stream_context);
}

/* The protocol that was asked for, if the client offers it; else none. */
static size_t select_protocol(struct st_picoquic_quic_t *quic, struct st_picoquic_iovec_t *offered, size_t count)
{
    const char *name = serving->http3 ? "h3" : HQ;
    size_t i = 0;
    (void)quic;
    while (i < count && (offered[i].len != strlen(name) || memcmp(offered[i].base, name, strlen(name))))
        i++;
    return i;
}

int serve(const struct options *options, struct st_picoquic_quic_config_t *config)
{
    serving = options;
    web.web_folder = config->www_dir = options->root;
    config->server_cert_file = options->certificate;
    config->server_key_file = options->private_key;
    config->server_port = config->local_port = (uint16_t)options->port;
    if (is_asked("connectionmigration")) {
        config->local_port = PREFERRED_PORT;
        config->preferred_address_v4 = environment("ADDRESS4");
        config->preferred_address_v6 = environment("ADDRESS6");
    }
    config->do_retry = options->retry;
    struct st_picoquic_quic_t *quic = configure(options, config, accept_connection);
    picoquic_set_alpn_select_fn_v2(quic, select_protocol);
    int error = run_loop(quic, options, config->local_port, NULL);
    picoquic_free(quic);
    if (error)
        fail("the packet loop ended with error 0x%x", error);
    return 0;
}
