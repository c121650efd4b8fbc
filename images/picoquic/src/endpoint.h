/* What the parts of the endpoint share. */
#ifndef ENDPOINT_H
#define ENDPOINT_H

#include "options.h"
#include "picoquic.h"

/* HTTP/3's code for a good end (RFC 9114 §8.1). */
#define H3_NO_ERROR 0x100
/* Long enough for any path under test to come back, ms. The program that is told another one defines it so (Dockerfile). */
#ifndef IDLE_TIMEOUT
#define IDLE_TIMEOUT 60000
#endif
/* RFC 9369 §3.1. */
#define VERSION_2 0x6b3343cfu

/* --- tuning.c: what picoquic has no interface for */

void tune(const struct options *);
/* Sets the initial congestion window: to be called when a connection's handshake is about to end. */
void set_initial_window(struct st_picoquic_cnx_t *);
/* Leaves the connection of a client without 0-RTT packets: to be called once it has begun. */
void forget_early_keys(struct st_picoquic_cnx_t *);
/* Has the connection go on from another local address, without probing, and with another connection ID. 0, or picoquic's
 * error. */
int rebind(struct st_picoquic_cnx_t *, const struct sockaddr_storage *local);
/* Leaves picoquic X25519 and P-256, in this order. It begins with X25519MLKEM768, which not every peer answers; and a
 * peer that prefers it to what was sent (Go's) would cost every new connection a HelloRetryRequest. To be called once
 * there is a context. */
void offer_classic_groups(void);

/* --- moves.c */

/* Reads the client's moves from the environment; false if there are none. Ends the process where something in it is wrong. */
bool read_moves(void);
/* One of the two ports of the loop's sockets: that of the start, or the other. */
void set_port(bool is_other, uint16_t port);
/* To be called when a connection's first datagram leaves. The first one's starts the clock. */
void begin_moves(uint64_t now);
/* To be called when a connection begins: it does so where the last move led to. */
void start_from_moved(struct st_picoquic_cnx_t *, const struct sockaddr *peer, uint64_t now);
/* When the next one is due, µs of picoquic's clock; never if it waits for the handshake, whose datagrams wake the loop. */
uint64_t next_move(void);
/* Makes the next one if it is due. Ends the process where that fails. */
void make_moves(struct st_picoquic_cnx_t *, uint64_t now);
/* Whether an address of this machine went with its interface, so that nothing comes to it any more. */
bool is_left(const struct sockaddr *);
/* Tells of those that were not made. */
void end_moves(void);

/* --- loop.c */

/* Works on the context's connections until `step` ends it or a signal does. `port`: of this process, 0 for one of the
 * system's choice; a server listens at the port of its options, too. 0, or picoquic's error. */
int run_loop(struct st_picoquic_quic_t *, const struct options *, uint16_t port, picoquic_packet_loop_cb_fn step);

/* --- server.c */

int serve(const struct options *, struct st_picoquic_quic_config_t *);

/* --- client.c */

int fetch(const struct options *, struct st_picoquic_quic_config_t *);

/* --- main.c */

/* A variable of the environment, NULL where it is empty. */
const char *environment(const char *name);

/* Whether it is asked for a test case beyond those that all programs share (run_endpoint.sh). */
bool is_asked(const char *testcase);

/* A context as the options want it, with logs where the environment wants them. Ends the process if it cannot be. */
struct st_picoquic_quic_t *configure(const struct options *, struct st_picoquic_quic_config_t *,
                                     picoquic_stream_data_cb);

#endif
