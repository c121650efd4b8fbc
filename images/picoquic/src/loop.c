/* picoquic's own packet loop, and how it sleeps and ends. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>

#include "endpoint.h"

static struct st_picoquic_quic_t *running;
static picoquic_packet_loop_cb_fn step_of;
static volatile sig_atomic_t stopped;

static void stop(int signal)
{
    (void)signal;
    stopped = 1;
}

/* picoquic's loop waits with poll() for whole milliseconds, to the nearest, and calls it again and again with 0 when
 * less than half of one is left: it spins. In virtual time a program that computes does not let the clock go on, and in
 * real time it costs a core. So that last part of a wait is slept here, to the µs that picoquic wants to wake at. */
int poll(struct pollfd *sockets, nfds_t count, int milliseconds)
{
    struct timespec wait = {milliseconds / 1000, (milliseconds % 1000) * 1000000L};
    uint64_t now = picoquic_current_time(), due = next_move();
    if (milliseconds == 0 && running) {
        int64_t left = picoquic_get_next_wake_delay(running, now, 1000);
        /* A longer one than picoquic would have rounded to 0 is none of a spinning loop. */
        if (left > 0 && left <= 500)
            wait.tv_nsec = left * 1000;
    }
    /* picoquic knows nothing of the moves. */
    if (due != UINT64_MAX && milliseconds && now + (uint64_t)milliseconds * 1000 > due) {
        uint64_t left = due > now ? due - now : 0;
        wait = (struct timespec){(time_t)(left / 1000000), (long)(left % 1000000) * 1000L};
    }
    int ready = ppoll(sockets, count, milliseconds < 0 ? NULL : &wait, NULL);
    return ready < 0 && errno == EINTR ? 0 : ready;
}

/* A signal ends the loop in good order, so that logs are closed. */
static int step(struct st_picoquic_quic_t *quic, int mode, void *context, void *argument)
{
    if (stopped)
        return PICOQUIC_NO_ERROR_TERMINATE_PACKET_LOOP;
    return step_of ? step_of(quic, mode, context, argument) : 0;
}

int run_loop(struct st_picoquic_quic_t *quic, const struct options *options, uint16_t port,
             picoquic_packet_loop_cb_fn step_of_role)
{
    struct sigaction on_end = {.sa_handler = stop};
    sigaction(SIGTERM, &on_end, NULL);
    sigaction(SIGINT, &on_end, NULL);
    struct st_picoquic_packet_loop_param_t parameters = {
        .local_port = port,
        /* Where it differs from its own port, which may be its preferred address. */
        .public_port = options->is_server && options->port != port ? (uint16_t)options->port : 0,
        .do_not_use_gso = !options->gso,
        .extra_socket_required = options->moves,
    };
    running = quic;
    step_of = step_of_role;
    int error = picoquic_packet_loop_v2(quic, &parameters, step, NULL);
    running = NULL;
    return error == PICOQUIC_NO_ERROR_TERMINATE_PACKET_LOOP ? 0 : error;
}
