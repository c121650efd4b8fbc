/* The command line, alike for all our endpoints: picoquic-endpoint (client|server) [--option=value ...] [URL ...]. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* How the client spreads its requests over connections. */
enum plan {
    PLAN_SINGLE,     /* all on one */
    PLAN_EACH,       /* one each */
    PLAN_RESUME,     /* the first on one, the others on a second that resumes its session */
    PLAN_EARLY_DATA, /* as PLAN_RESUME, with the second connection's requests as early data */
};

enum bdp_seed {
    SEED_JUMP_START, /* picoquic's own way: a resumed connection starts from the window of the one before */
    SEED_BDP_FRAME,  /* and the server has its client keep the figures (draft-kuhn-quic-bdpframe-extension) */
    SEED_OFF,
};

struct url {
    char *host, *port, *path;
    char *file; /* where it is saved */
};

/* A number that is not asked for is negative: picoquic's own holds. */
struct options {
    bool is_server, http3, retry;
    enum plan plan;
    const char *downloads, *root, *certificate, *private_key, *session_dir;
    int64_t port;

    const char *congestion_control; /* picoquic's name */
    int64_t initial_cwnd;           /* packets */
    int64_t initial_rtt;            /* µs */
    int64_t ack_ratio;              /* ack-eliciting packets per ACK */
    int64_t max_ack_delay;          /* µs */
    int64_t ack_delay_exponent;
    int64_t connection_window, stream_window, max_udp_payload; /* bytes */
    bool path_mtu_discovery, gso, ecn, zero_rtt, ack_frequency;
    enum bdp_seed bdp_seed;

    bool moves; /* of a client: there are some */
    struct url *urls;
    int url_count;
};

/* Reads a command line. Ends the process with 1, and a word on stderr, where something in it is wrong. */
struct options parse_options(int count, char **words);

/* Says what is wrong on stderr and ends the process with 1. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
