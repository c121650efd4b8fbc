/* What we use of picoquic 1.1.53, declared by its names: the object of the wheel brings no headers.
 *
 * The layouts come from the object's debug information (DWARF), and layouts.py holds these declarations against it
 * at every build. Of structures that picoquic makes, only the members we touch are declared: what lies between is
 * "unused". DWARF has no values of enumerators: they are the order of picoquic's headers, which the wheel's
 * picoquic.pxd repeats. */
#ifndef PICOQUIC_H
#define PICOQUIC_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

struct st_picoquic_connection_id_t {
    uint8_t id[20];
    uint8_t id_len;
};

struct st_picoquic_iovec_t {
    uint8_t *base;
    size_t len;
};

/* --- structures that we make or copy: whole */

/* What picoquicdemo's command line comes to. */
struct st_picoquic_quic_config_t {
    uint32_t nb_connections;
    const char *solution_dir, *server_cert_file, *server_key_file, *log_file, *bin_dir, *qlog_dir, *performance_log;
    uint16_t server_port, local_port;
    int is_port_shared, nb_threads, dest_if, mtu_max, cnx_id_length, idle_timeout, socket_buffer_size;
    const char *cc_algo_id, *cc_algo_option_string, *cnx_id_cbdata;
    int spinbit_policy, lossbit_policy, multipath_option;
    char *multipath_alt_config;
    int bdp_frame_option;
    uint64_t cwin_max;
    int address_discovery_mode;
    unsigned initial_random;
    unsigned use_long_log : 1, do_preemptive_repeat : 1, do_not_use_gso : 1, disable_port_blocking : 1,
        enable_sslkeylog : 1;
    const char *www_dir;
    uint8_t reset_seed[16];
    const uint8_t *ticket_encryption_key;
    size_t ticket_encryption_key_length;
    unsigned do_retry : 1, has_reset_seed : 1;
    const char *ticket_file_name, *token_file_name, *sni, *alpn, *out_dir, *root_trust_file;
    int cipher_suite_id;
    uint32_t proposed_version, desired_version;
    unsigned force_zero_share : 1, no_disk : 1, large_client_hello : 1;
    const char *ech_key_file, *ech_config_file, *ech_public_name;
    uint8_t *ech_target;
    size_t ech_target_len;
    uint64_t flow_control_max;
    const char *preferred_address_v4, *preferred_address_v6, *qmux_string;
    int is_scone_supported;
};

struct st_picoquic_packet_loop_param_t {
    uint16_t local_port;
    int local_af, dest_if;
    uint16_t public_port;
    int is_port_shared;
    uint16_t qmux_port;
    int qmux_is_port_shared, socket_buffer_size, do_not_use_gso, extra_socket_required, prefer_extra_socket,
        simulate_eio;
    size_t send_length_max, send_batch_max;
    struct sockaddr_storage local_addr[2];
};

/* What the loop's callback may ask for when the loop is ready. */
struct st_picoquic_packet_loop_options_t {
    unsigned do_time_check : 1, do_system_call_duration : 1, provide_alt_port : 1;
};

/* Transport parameters (RFC 9000 §18.2); delays in µs, except max_idle_timeout (ms). */
struct st_picoquic_tp_t {
    uint64_t initial_max_stream_data_bidi_local, initial_max_stream_data_bidi_remote, initial_max_stream_data_uni,
        initial_max_data, initial_max_stream_id_bidir, initial_max_stream_id_unidir, max_idle_timeout;
    uint32_t max_packet_size, max_ack_delay, active_connection_id_limit;
    uint8_t ack_delay_exponent;
    unsigned migration_disabled;
    struct st_picoquic_tp_preferred_address_t {
        int is_defined;
        uint8_t ipv4Address[4];
        uint16_t ipv4Port;
        uint8_t ipv6Address[16];
        uint16_t ipv6Port;
        struct st_picoquic_connection_id_t connection_id;
        uint8_t statelessResetToken[16];
    } preferred_address;
    uint32_t max_datagram_frame_size;
    int enable_loss_bit, enable_time_stamp;
    uint64_t min_ack_delay;
    int do_grease_quic_bit;
    struct st_picoquic_tp_version_negotiation_t {
        uint32_t current, previous;
        size_t nb_received;
        uint32_t *received;
        size_t nb_supported;
        uint32_t *supported;
    } version_negotiation;
    int enable_bdp_frame;
    uint64_t initial_max_path_id;
    int address_discovery_mode, is_reset_stream_at_enabled, is_scone_supported;
};

struct st_picohttp_server_parameters_t {
    const char *web_folder;
    void *path_table;
    size_t path_table_nb;
};

/* --- structures that picoquic makes: the members we touch */

struct st_picoquic_quic_t;

struct st_picoquic_tuple_t {
    uint8_t unused_before_local[144];
    struct sockaddr_storage local_addr;
    uint8_t unused_after_local[288];
};

struct st_picoquic_path_t {
    uint8_t unused_before_tuple[544];
    struct st_picoquic_tuple_t *first_tuple; /* the addresses in use */
    uint8_t unused_before_rtt[184];
    uint64_t smoothed_rtt, rtt_variant, retransmit_timer; /* µs */
    uint8_t unused_before_mtu[96];
    size_t send_mtu; /* bytes of UDP payload */
    uint8_t unused_before_window[152];
    uint64_t cwin; /* bytes */
};

struct st_picoquic_crypto_context_t {
    void *aead_encrypt, *aead_decrypt, *pn_enc, *pn_dec;
};

struct st_picoquic_cnx_t {
    uint8_t unused_before_keys[2664];
    struct st_picoquic_crypto_context_t crypto_context[4];
    uint8_t unused_before_path[1888];
    struct st_picoquic_path_t **path;
    int nb_paths;
};

struct st_h3zero_stream_ctx_t {
    uint8_t unused_before_state[40];
    union {
        struct st_h3zero_data_stream_state_t {
            uint8_t unused_before_header[8];
            struct st_h3zero_header_parts_t {
                uint8_t unused_before_status[72];
                int status; /* of HTTP */
                uint8_t unused_after_status[60];
            } header;
            uint8_t unused_after_header[224];
        } stream_state;
    } ps;
    uint8_t unused_before_open[1080];
    unsigned is_open : 1;
    uint8_t unused_before_file[28];
    char *file_path;
    FILE *F;
};

struct st_h3zero_callback_ctx_t {
    uint8_t unused_before_switches[168];
    unsigned no_disk : 1, no_print : 1;
    int nb_open_streams;
};

/* --- callbacks and their events */

enum picoquic_call_back_event {
    picoquic_callback_stream_data,
    picoquic_callback_stream_fin,
    picoquic_callback_stream_reset,
    picoquic_callback_stop_sending,
    picoquic_callback_stateless_reset,
    picoquic_callback_close,
    picoquic_callback_application_close,
    picoquic_callback_stream_gap,
    picoquic_callback_prepare_to_send,
    picoquic_callback_almost_ready,
    picoquic_callback_ready,
    picoquic_callback_stream_released = 27, /* the last word on a stream's context */
};

enum picoquic_packet_loop_cb {
    picoquic_packet_loop_ready,
    picoquic_packet_loop_after_receive,
    picoquic_packet_loop_after_send,
    picoquic_packet_loop_port_update,  /* with an address of the first socket */
    picoquic_packet_loop_alt_port = 7, /* with the port of the extra sockets */
};

enum {
    /* What a loop's callback returns to end it. */
    PICOQUIC_NO_ERROR_TERMINATE_PACKET_LOOP = 0x42f,
    /* The handshake is confirmed. */
    picoquic_state_ready = 14,
    /* The last state in which a connection has something to say; then it is draining or gone. */
    picoquic_state_closing = 15,
    PICOQUIC_PMTUD_BLOCKED = 3,
    PICOQUIC_EPOCH_0RTT = 1,
};

typedef int (*picoquic_stream_data_cb)(struct st_picoquic_cnx_t *, uint64_t stream_id, uint8_t *bytes, size_t length,
                                       int event, void *context, void *stream_context);
typedef int (*picoquic_packet_loop_cb_fn)(struct st_picoquic_quic_t *, int mode, void *context, void *argument);
typedef size_t (*picoquic_alpn_select_fn_v2)(struct st_picoquic_quic_t *, struct st_picoquic_iovec_t *, size_t count);

/* --- functions; times in µs */

extern const struct st_picoquic_connection_id_t picoquic_null_connection_id;

void picoquic_config_init(struct st_picoquic_quic_config_t *);
struct st_picoquic_quic_t *picoquic_create_and_configure(struct st_picoquic_quic_config_t *, picoquic_stream_data_cb,
                                                         void *context, uint64_t now, uint64_t *simulated_time);
void picoquic_free(struct st_picoquic_quic_t *);
/* In order of preference, NULL behind the last. */
extern const void *picoquic_key_exchanges[];
void picoquic_sort_key_exchange_algorithms(uint16_t *groups, size_t count);
void picoquic_crypto_context_free(struct st_picoquic_crypto_context_t *);
void picoquic_register_all_congestion_control_algorithms(void);
const void *picoquic_get_congestion_algorithm(const char *name);
void picoquic_set_alpn_select_fn_v2(struct st_picoquic_quic_t *, picoquic_alpn_select_fn_v2);
int picoquic_set_qlog(struct st_picoquic_quic_t *, const char *folder);
void picoquic_set_log_level(struct st_picoquic_quic_t *, int);
void picoquic_set_key_log_file(struct st_picoquic_quic_t *, const char *file);
void picoquic_set_null_verifier(struct st_picoquic_quic_t *);
const struct st_picoquic_tp_t *picoquic_get_default_tp(struct st_picoquic_quic_t *);
int picoquic_set_default_tp(struct st_picoquic_quic_t *, struct st_picoquic_tp_t *);
void picoquic_set_default_pmtud_policy(struct st_picoquic_quic_t *, int);
int picoquic_save_session_tickets(struct st_picoquic_quic_t *, const char *file);
int picoquic_save_retry_tokens(struct st_picoquic_quic_t *, const char *file);

int picoquic_packet_loop_v2(struct st_picoquic_quic_t *, struct st_picoquic_packet_loop_param_t *,
                            picoquic_packet_loop_cb_fn, void *context);
uint64_t picoquic_current_time(void);
int64_t picoquic_get_next_wake_delay(struct st_picoquic_quic_t *, uint64_t now, int64_t longest);

struct st_picoquic_cnx_t *picoquic_create_cnx(struct st_picoquic_quic_t *,
                                              struct st_picoquic_connection_id_t initial,
                                              struct st_picoquic_connection_id_t remote, const struct sockaddr *,
                                              uint64_t now, uint32_t version, const char *server_name,
                                              const char *alpn, char is_client);
int picoquic_start_client_cnx(struct st_picoquic_cnx_t *);
/* What compatible version negotiation (RFC 9368) is to come to. */
void picoquic_set_desired_version(struct st_picoquic_cnx_t *, uint32_t version);
/* Not 0 where the handshake is not confirmed yet. */
int picoquic_start_key_rotation(struct st_picoquic_cnx_t *);
int picoquic_set_local_addr(struct st_picoquic_cnx_t *, struct sockaddr *);
void picoquic_get_peer_addr(struct st_picoquic_cnx_t *, struct sockaddr **);
/* Probes the path between two addresses and, once it is validated, switches to it. */
int picoquic_probe_new_path_ex(struct st_picoquic_cnx_t *, const struct sockaddr *peer, const struct sockaddr *local,
                               int interface, uint64_t now, int is_to_preferred_address);
int picoquic_renew_connection_id(struct st_picoquic_cnx_t *, int path);
void picoquic_set_callback(struct st_picoquic_cnx_t *, picoquic_stream_data_cb, void *context);
int picoquic_close(struct st_picoquic_cnx_t *, uint64_t error);
int picoquic_get_cnx_state(struct st_picoquic_cnx_t *);
const char *picoquic_tls_get_negotiated_alpn(struct st_picoquic_cnx_t *);
int picoquic_tls_is_psk_handshake(struct st_picoquic_cnx_t *);
int picoquic_is_0rtt_available(struct st_picoquic_cnx_t *);
void picoquic_get_close_reasons(struct st_picoquic_cnx_t *, uint64_t *local, uint64_t *remote,
                                uint64_t *local_application, uint64_t *remote_application);
uint64_t picoquic_get_next_local_stream_id(struct st_picoquic_cnx_t *, int is_unidirectional);
int picoquic_add_to_stream_with_ctx(struct st_picoquic_cnx_t *, uint64_t stream_id, const uint8_t *, size_t,
                                    int is_last, void *stream_context);
int picoquic_mark_active_stream(struct st_picoquic_cnx_t *, uint64_t stream_id, int is_active, void *stream_context);
int picoquic_set_app_stream_ctx(struct st_picoquic_cnx_t *, uint64_t stream_id, void *stream_context);
uint8_t *picoquic_provide_stream_data_buffer(void *context, size_t length, int is_last, int is_still_active);
int picoquic_reset_stream(struct st_picoquic_cnx_t *, uint64_t stream_id, uint64_t error);

/* Those that picoquic calls through its procedure linkage table, so that ours come first (tuning.c). */
int picoquic_create_path(struct st_picoquic_cnx_t *, uint64_t now, const struct sockaddr *local,
                         const struct sockaddr *peer, int interface, uint64_t path_id);
int picoquic_incoming_packet_ex(struct st_picoquic_quic_t *, uint8_t *bytes, size_t length, struct sockaddr *from,
                                struct sockaddr *to, int interface, unsigned char ecn,
                                struct st_picoquic_cnx_t **first, uint64_t now);
uint64_t picoquic_ack_gap_override_if_needed(struct st_picoquic_cnx_t *, int path);
void picoquic_seed_bandwidth(struct st_picoquic_cnx_t *, uint64_t rtt_min, uint64_t cwin, const uint8_t *address,
                             uint8_t address_length);
int picoquic_socket_set_ecn_options_ex(int socket, int family, int *receives, int *sends, uint8_t codepoint);

/* HTTP/3, as picoquicdemo speaks it. */
struct st_h3zero_callback_ctx_t *h3zero_callback_create_context(struct st_picohttp_server_parameters_t *);
int h3zero_protocol_init_safe(struct st_picoquic_cnx_t *, struct st_h3zero_callback_ctx_t *);
int h3zero_callback(struct st_picoquic_cnx_t *, uint64_t stream_id, uint8_t *bytes, size_t length, int event,
                    void *context, void *stream_context);
struct st_h3zero_stream_ctx_t *h3zero_find_or_create_stream(struct st_picoquic_cnx_t *, uint64_t stream_id,
                                                            struct st_h3zero_callback_ctx_t *, int should_create,
                                                            int is_h3);
int h3zero_client_open_stream_file(struct st_picoquic_cnx_t *, struct st_h3zero_callback_ctx_t *,
                                   struct st_h3zero_stream_ctx_t *);
uint8_t *h3zero_create_request_header_frame(uint8_t *at, uint8_t *end, const uint8_t *path, size_t path_length,
                                            const char *host);

#endif
