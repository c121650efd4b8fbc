/* A QUIC file client and server over picoquic, for interop and performance measurements. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/platform/x86.h>

#include "endpoint.h"

#define NOT_SUPPORTED 127
/* IPv4's and UDP's headers, which picoquic counts to its largest packet. */
#define HEADERS 28
/* What picoquic calls TLS_CHACHA20_POLY1305_SHA256 alone. */
#define CHACHA20 20

const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

bool is_asked(const char *testcase)
{
    const char *asked = environment("ASKED");
    return asked && !strcmp(asked, testcase);
}

static void set_transport_parameters(struct st_picoquic_quic_t *quic, const struct options *options)
{
    struct st_picoquic_tp_t wanted = *picoquic_get_default_tp(quic);
    if (options->max_ack_delay >= 0)
        wanted.max_ack_delay = (uint32_t)options->max_ack_delay;
    if (options->ack_delay_exponent >= 0)
        wanted.ack_delay_exponent = (uint8_t)options->ack_delay_exponent;
    if (options->connection_window >= 0)
        wanted.initial_max_data = (uint64_t)options->connection_window;
    if (options->stream_window >= 0)
        wanted.initial_max_stream_data_bidi_local = wanted.initial_max_stream_data_bidi_remote =
            wanted.initial_max_stream_data_uni = (uint64_t)options->stream_window;
    if (!options->ack_frequency)
        wanted.min_ack_delay = 0;
    picoquic_set_default_tp(quic, &wanted);
}

struct st_picoquic_quic_t *configure(const struct options *options, struct st_picoquic_quic_config_t *config,
                                     picoquic_stream_data_cb callback)
{
    const char *keys = environment("SSLKEYLOGFILE"), *traces = environment("QLOGDIR");
    config->enable_sslkeylog = keys != NULL;
    struct st_picoquic_quic_t *quic =
        picoquic_create_and_configure(config, callback, NULL, picoquic_current_time(), NULL);
    if (!quic)
        fail("picoquic takes no such configuration%s", options->is_server ? ": are certificate and key there?" : "");
    offer_classic_groups();
    set_transport_parameters(quic, options);
    if (!options->path_mtu_discovery)
        picoquic_set_default_pmtud_policy(quic, PICOQUIC_PMTUD_BLOCKED);
    if (keys)
        picoquic_set_key_log_file(quic, keys);
    if (traces && picoquic_set_qlog(quic, traces))
        fail("%s: no qlog can be written there", traces);
    /* Without it a trace ends after 100 packets. */
    picoquic_set_log_level(quic, 1);
    return quic;
}

/* Whether this processor has what the wheel's object was compiled for (x86-64-v3). */
static bool has_instructions(void)
{
    return x86_cpu_active(x86_cpu_AVX2) && x86_cpu_active(x86_cpu_BMI1) && x86_cpu_active(x86_cpu_BMI2) &&
           x86_cpu_active(x86_cpu_F16C) && x86_cpu_active(x86_cpu_FMA) && x86_cpu_active(x86_cpu_LZCNT) &&
           x86_cpu_active(x86_cpu_MOVBE);
}

int main(int count, char **words)
{
    if (!has_instructions()) {
        fputs("picoquic-endpoint: unsupported: this build of picoquic needs an x86-64-v3 processor (AVX2, BMI2, FMA)\n",
              stderr);
        return NOT_SUPPORTED;
    }
    struct options options = parse_options(count, words);
    tune(&options);
    picoquic_register_all_congestion_control_algorithms();
    /* picoquic takes BBR for a name it does not know. */
    if (options.congestion_control && !picoquic_get_congestion_algorithm(options.congestion_control))
        fail("no such congestion control: %s", options.congestion_control);
    struct st_picoquic_quic_config_t config;
    picoquic_config_init(&config);
    config.nb_connections = 256;
    config.idle_timeout = IDLE_TIMEOUT;
    config.cc_algo_id = options.congestion_control;
    config.do_not_use_gso = !options.gso;
    /* A client that can keep a server's figures does no harm to one that sends none. */
    config.bdp_frame_option = !options.is_server || options.bdp_seed == SEED_BDP_FRAME;
    /* Clients of one lab begin at once, from one address. */
    config.disable_port_blocking = 1;
    if (options.connection_window >= 0)
        config.flow_control_max = (uint64_t)options.connection_window;
    if (is_asked("chacha20"))
        config.cipher_suite_id = CHACHA20;
    if (options.max_udp_payload >= 0)
        config.mtu_max = (int)options.max_udp_payload + HEADERS;
    return (options.is_server ? serve : fetch)(&options, &config);
}
