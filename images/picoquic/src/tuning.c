/* What picoquic has no interface for. Its object calls its own exported functions through the procedure linkage
 * table, and there the program's definitions come first: these. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "endpoint.h"

static const struct options *wanted;

void tune(const struct options *options)
{
    wanted = options;
}

/* picoquic's own definition of a function that this file defines. */
#define THEIRS(function) ((__typeof__(function) *)dlsym(RTLD_NEXT, #function))

int picoquic_create_path(struct st_picoquic_cnx_t *cnx, uint64_t now, const struct sockaddr *local,
                         const struct sockaddr *peer, int interface, uint64_t path_id)
{
    int index = THEIRS(picoquic_create_path)(cnx, now, local, peer, interface, path_id);
    if (index >= 0 && wanted->initial_rtt > 0) {
        struct st_picoquic_path_t *path = cnx->path[index];
        path->smoothed_rtt = (uint64_t)wanted->initial_rtt;
        /* RFC 9002 §6.2.2; picoquic's own start has 0, and a timer of its initial RTT. */
        path->rtt_variant = path->smoothed_rtt / 2;
        path->retransmit_timer = path->smoothed_rtt + 4 * path->rtt_variant;
    }
    return index;
}

void set_initial_window(struct st_picoquic_cnx_t *cnx)
{
    struct st_picoquic_path_t *path = cnx->path[0];
    if (wanted->initial_cwnd > 0)
        path->cwin = (uint64_t)wanted->initial_cwnd * path->send_mtu;
}

void forget_early_keys(struct st_picoquic_cnx_t *cnx)
{
    picoquic_crypto_context_free(&cnx->crypto_context[PICOQUIC_EPOCH_0RTT]);
}

int rebind(struct st_picoquic_cnx_t *cnx, const struct sockaddr_storage *local)
{
    /* Its own way is to probe, or, to test servers, to change the port. */
    cnx->path[0]->first_tuple->local_addr = *local;
    return picoquic_renew_connection_id(cnx, 0);
}

int picoquic_incoming_packet_ex(struct st_picoquic_quic_t *quic, uint8_t *bytes, size_t length, struct sockaddr *from,
                                struct sockaddr *to, int interface, unsigned char ecn,
                                struct st_picoquic_cnx_t **first, uint64_t now)
{
    /* What was under way to it would have picoquic probe its way back. */
    if (is_left(to))
        return 0;
    /* Else it would send from its address on a new path through the interface that the last datagram came by. */
    if (wanted->moves)
        interface = 0;
    return THEIRS(picoquic_incoming_packet_ex)(quic, bytes, length, from, to, interface, ecn, first, now);
}

void offer_classic_groups(void)
{
    /* TLS groups (RFC 8446 §4.2.7): x25519, secp256r1. */
    uint16_t groups[] = {29, 23};
    const size_t count = sizeof groups / sizeof *groups;
    picoquic_sort_key_exchange_algorithms(groups, count);
    picoquic_key_exchanges[count] = NULL;
}

uint64_t picoquic_ack_gap_override_if_needed(struct st_picoquic_cnx_t *cnx, int path)
{
    if (wanted->ack_ratio > 0)
        return (uint64_t)wanted->ack_ratio;
    return THEIRS(picoquic_ack_gap_override_if_needed)(cnx, path);
}

void picoquic_seed_bandwidth(struct st_picoquic_cnx_t *cnx, uint64_t rtt_min, uint64_t cwin, const uint8_t *address,
                             uint8_t address_length)
{
    if (wanted->bdp_seed != SEED_OFF)
        THEIRS(picoquic_seed_bandwidth)(cnx, rtt_min, cwin, address, address_length);
}

int picoquic_socket_set_ecn_options_ex(int socket, int family, int *receives, int *sends, uint8_t codepoint)
{
    /* With codepoint 0 (Not-ECT) it asks for the marks of what arrives and sets none on what is sent. */
    return THEIRS(picoquic_socket_set_ecn_options_ex)(socket, family, receives, sends, wanted->ecn ? codepoint : 0);
}
