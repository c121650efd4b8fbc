/* The client: one connection after the other, as the plan has it, until every file is there. */
#define _GNU_SOURCE
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "endpoint.h"

struct download {
    const struct url *url;
    uint64_t stream;
    FILE *file;                           /* hq-interop: ours */
    struct st_h3zero_stream_ctx_t *http3; /* HTTP/3: h3zero's, which writes the file itself */
    bool is_done;
};

static const struct options *fetching;
static struct st_picoquic_quic_t *quic;
static struct download *downloads;
/* The current connection fetches downloads[first] up to, not including, downloads[last]. */
static int first, last, done;
static bool is_fetching, has_failed, has_updated;
static bool is_hopeless; /* for a reason of this machine: nothing is to be waited for */
static struct st_picoquic_cnx_t *connection;
static struct st_h3zero_callback_ctx_t *session;

static void failed(const struct url *url, const char *reason)
{
    fprintf(stderr, "picoquic-endpoint: %s: %s\n", url->path, reason);
    has_failed = true;
}

static int ask_http3(struct st_picoquic_cnx_t *cnx, struct download *download)
{
    /* HEADERS (RFC 9114 §7.2.2): type, length in two bytes, then the fields. */
    uint8_t frame[4096], *const fields = frame + 3;
    uint8_t *end = h3zero_create_request_header_frame(fields, frame + sizeof frame, (uint8_t *)download->url->path,
                                                      strlen(download->url->path), download->url->host);
    struct st_h3zero_stream_ctx_t *stream = h3zero_find_or_create_stream(cnx, download->stream, session, 1, 1);
    if (!end || !stream)
        return -1;
    size_t length = (size_t)(end - fields);
    frame[0] = 1;
    frame[1] = (uint8_t)(0x40 | length >> 8);
    frame[2] = (uint8_t)length;
    download->http3 = stream;
    stream->file_path = strdup(download->url->file);
    /* Without it h3zero drops the body. */
    stream->is_open = 1;
    session->nb_open_streams++;
    int error = h3zero_client_open_stream_file(cnx, session, stream);
    return error ? error : picoquic_add_to_stream_with_ctx(cnx, download->stream, frame, length + 3, 1, stream);
}

static int ask_hq(struct st_picoquic_cnx_t *cnx, struct download *download)
{
    char *line;
    int length = asprintf(&line, "GET %s\r\n", download->url->path);
    download->file = fopen(download->url->file, "wb");
    if (length < 0 || !download->file)
        return -1;
    /* So that the file grows as the data come in. */
    setvbuf(download->file, NULL, _IONBF, 0);
    int error = picoquic_add_to_stream_with_ctx(cnx, download->stream, (uint8_t *)line, (size_t)length, 1, download);
    free(line);
    return error;
}

/* Sends the connection's requests, once. */
static void ask(struct st_picoquic_cnx_t *cnx)
{
    if (is_fetching)
        return;
    is_fetching = true;
    for (int i = first; i < last; i++) {
        struct download *download = &downloads[i];
        download->stream = picoquic_get_next_local_stream_id(cnx, 0);
        if ((fetching->http3 ? ask_http3 : ask_hq)(cnx, download)) {
            failed(download->url, "cannot be asked for, or written");
            is_hopeless = true;
        }
    }
}

static struct download *download_of(uint64_t stream)
{
    for (int i = first; is_fetching && i < last; i++)
        if (downloads[i].stream == stream)
            return &downloads[i];
    return NULL;
}

/* The end of a download, good or bad. */
static void finish(struct st_picoquic_cnx_t *cnx, struct download *download, bool is_reset, int status)
{
    download->is_done = true;
    done++;
    if (download->file && fclose(download->file))
        failed(download->url, "cannot be written");
    if (is_reset)
        failed(download->url, "the stream was reset");
    else if (fetching->http3 && status != 200) {
        char reason[32];
        snprintf(reason, sizeof reason, "status %d", status);
        failed(download->url, reason);
    }
    if (done == last)
        picoquic_close(cnx, fetching->http3 ? H3_NO_ERROR : 0);
}

static int on_stream(struct st_picoquic_cnx_t *cnx, uint64_t stream, uint8_t *bytes, size_t length, int event,
                     void *stream_context)
{
    struct download *download = download_of(stream);
    bool is_open = download && !download->is_done;
    int error = 0, status = 0;
    /* h3zero may let go of the stream's context with its last event. */
    if (is_open && download->http3 && event != picoquic_callback_stream_fin)
        status = download->http3->ps.stream_state.header.status;
    if (session)
        error = h3zero_callback(cnx, stream, bytes, length, event, session, stream_context);
    else if (is_open && event != picoquic_callback_stream_reset &&
             fwrite(bytes, 1, length, download->file) != length) {
        failed(download->url, "cannot be written");
        is_hopeless = true;
    }
    if (is_open && event == picoquic_callback_stream_fin && download->http3)
        status = download->http3->ps.stream_state.header.status;
    if (is_open && event != picoquic_callback_stream_data)
        finish(cnx, download, event == picoquic_callback_stream_reset, status);
    return error;
}

/* The connection is over; the next one may begin. */
static void on_end(struct st_picoquic_cnx_t *cnx)
{
    uint64_t local, remote, local_application, remote_application;
    picoquic_get_close_reasons(cnx, &local, &remote, &local_application, &remote_application);
    fprintf(stderr, "picoquic-endpoint: resumed=%s\n", picoquic_tls_is_psk_handshake(cnx) ? "true" : "false");
    if (done < last) {
        fprintf(stderr, "picoquic-endpoint: the connection ended early: error 0x%jx here, 0x%jx there; "
                        "of the application 0x%jx here, 0x%jx there\n",
                (uintmax_t)local, (uintmax_t)remote, (uintmax_t)local_application, (uintmax_t)remote_application);
        has_failed = true;
    }
    connection = NULL;
    picoquic_set_callback(cnx, NULL, NULL);
}

static int on_event(struct st_picoquic_cnx_t *cnx, uint64_t stream, uint8_t *bytes, size_t length, int event,
                    void *context, void *stream_context)
{
    (void)context;
    switch (event) {
    case picoquic_callback_stream_data:
    case picoquic_callback_stream_fin:
    case picoquic_callback_stream_reset:
        return on_stream(cnx, stream, bytes, length, event, stream_context);
    case picoquic_callback_almost_ready:
        set_initial_window(cnx);
        ask(cnx);
        return 0;
    case picoquic_callback_ready:
        ask(cnx);
        return 0;
    case picoquic_callback_close:
    case picoquic_callback_application_close:
    case picoquic_callback_stateless_reset:
        on_end(cnx);
        return 0;
    default:
        return session ? h3zero_callback(cnx, stream, bytes, length, event, session, stream_context) : 0;
    }
}

/* Where the connection that begins with downloads[from] stops. */
static int end_of_connection(int from)
{
    switch (fetching->plan) {
    case PLAN_EACH:
        return from + 1;
    case PLAN_RESUME:
    case PLAN_EARLY_DATA:
        return from == 0 ? 1 : fetching->url_count;
    default:
        return fetching->url_count;
    }
}

static bool sends_early_data(void)
{
    return fetching->zero_rtt && (fetching->session_dir || fetching->plan == PLAN_EARLY_DATA);
}

/* False if the connection cannot even begin. */
static bool begin_connection(void)
{
    const struct addrinfo hint = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM};
    const struct url *url = downloads[first = last].url;
    struct addrinfo *found;
    int error = getaddrinfo(url->host, url->port, &hint, &found);
    if (error) {
        fprintf(stderr, "picoquic-endpoint: %s: %s\n", url->host, gai_strerror(error));
        return false;
    }
    last = end_of_connection(first);
    is_fetching = false;
    uint64_t now = picoquic_current_time();
    connection = picoquic_create_cnx(quic, picoquic_null_connection_id, picoquic_null_connection_id, found->ai_addr, now,
                                     0, url->host, fetching->http3 ? "h3" : "hq-interop", 1);
    if (connection && is_asked("v2"))
        picoquic_set_desired_version(connection, VERSION_2);
    if (connection)
        start_from_moved(connection, found->ai_addr, now);
    freeaddrinfo(found);
    if (!connection)
        return false;
    begin_moves(now);
    session = NULL;
    if (fetching->http3) {
        session = h3zero_callback_create_context(NULL);
        if (!session)
            return false;
        session->no_print = 1;
    }
    picoquic_set_callback(connection, on_event, NULL);
    if (session && h3zero_protocol_init_safe(connection, session))
        return false;
    if (picoquic_start_client_cnx(connection))
        return false;
    if (!fetching->zero_rtt)
        forget_early_keys(connection);
    else if (sends_early_data() && picoquic_is_0rtt_available(connection))
        ask(connection);
    return true;
}

/* What the loop tells of its sockets, where there are moves. */
static void note_ports(int mode, void *argument)
{
    if (mode == picoquic_packet_loop_ready)
        ((struct st_picoquic_packet_loop_options_t *)argument)->provide_alt_port = 1;
    else if (mode == picoquic_packet_loop_port_update)
        set_port(false, ((struct sockaddr_in *)argument)->sin_port); /* of either family, in the host's byte order */
    else if (mode == picoquic_packet_loop_alt_port)
        set_port(true, *(uint16_t *)argument);
}

static int step(struct st_picoquic_quic_t *context, int mode, void *unused, void *argument)
{
    (void)context, (void)unused;
    if (fetching->moves)
        note_ports(mode, argument);
    if (is_hopeless)
        return PICOQUIC_NO_ERROR_TERMINATE_PACKET_LOOP;
    if (connection)
        make_moves(connection, picoquic_current_time());
    if (connection && !has_updated && is_asked("keyupdate") && picoquic_get_cnx_state(connection) == picoquic_state_ready)
        has_updated = picoquic_start_key_rotation(connection) == 0;
    /* Once CONNECTION_CLOSE is on its way there is nothing to wait for. */
    if (connection && done == last && picoquic_get_cnx_state(connection) > picoquic_state_closing)
        on_end(connection);
    bool may_begin = mode == picoquic_packet_loop_ready || mode == picoquic_packet_loop_after_receive ||
                     mode == picoquic_packet_loop_after_send;
    if (connection || !may_begin)
        return 0;
    if (has_failed || last == fetching->url_count)
        return PICOQUIC_NO_ERROR_TERMINATE_PACKET_LOOP;
    if (!begin_connection()) {
        has_failed = true;
        return PICOQUIC_NO_ERROR_TERMINATE_PACKET_LOOP;
    }
    return 0;
}

/* A file that is kept between two processes, or only for this one. */
static char *kept(const char *name)
{
    char *file;
    if (asprintf(&file, "%s/%s", fetching->session_dir ? fetching->session_dir : "/tmp", name) < 0)
        fail("out of memory");
    return file;
}

int fetch(const struct options *options, struct st_picoquic_quic_config_t *config)
{
    fetching = options;
    downloads = calloc((size_t)options->url_count, sizeof *downloads);
    for (int i = 0; i < options->url_count; i++)
        downloads[i].url = &options->urls[i];
    config->ticket_file_name = kept("picoquic-tickets");
    config->token_file_name = kept("picoquic-tokens");
    quic = configure(options, config, on_event);
    /* The servers of a test network make their certificates themselves. */
    picoquic_set_null_verifier(quic);
    int error = run_loop(quic, options, 0, step);
    if (options->session_dir) {
        picoquic_save_session_tickets(quic, config->ticket_file_name);
        picoquic_save_retry_tokens(quic, config->token_file_name);
    }
    picoquic_free(quic);
    end_moves();
    if (error)
        fail("the packet loop ended with error 0x%x", error);
    return has_failed || done < options->url_count;
}
