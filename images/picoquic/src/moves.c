/* The moves that a client is told to make, in the environment: MOVES=AT,HOW,ADDRESS4,ADDRESS6[;AT,HOW,...].
 *
 * picoquic's loop keeps its sockets to itself. It has two of each family, at two ports, and sends each datagram from the
 * address and the port of its path: a move is to the other port at the new address. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "endpoint.h"

static struct move {
    uint64_t at; /* µs after the client's first datagram */
    bool is_interface;
    struct sockaddr_storage ipv4, ipv6; /* without a family where there is none */
} *moves;
static int count, made;
/* Of picoquic's clock, µs; 0 before the first datagram. */
static uint64_t zero;
/* In network order: that in use, and the other. */
static uint16_t ports[2];
static bool waited;
/* The only address that is left after a move to another interface; without a family where there are several. */
static struct sockaddr_storage only;

/* An address of that family; it may be left empty. */
static struct sockaddr_storage read_address(const char *text, int family)
{
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    void *bytes = family == AF_INET ? (void *)&((struct sockaddr_in *)&address)->sin_addr
                                    : (void *)&((struct sockaddr_in6 *)&address)->sin6_addr;
    if (*text) {
        if (inet_pton(family, text, bytes) != 1)
            fail("MOVES: not an address: %s", text);
        address.ss_family = (sa_family_t)family;
    }
    return address;
}

static struct move read_move(char *entry)
{
    struct move move = {0};
    char *fields[4], *end;
    for (int i = 0; i < 4; i++)
        if (!(fields[i] = strsep(&entry, ",")))
            fail("MOVES: not AT,HOW,ADDRESS4,ADDRESS6");
    if (entry)
        fail("MOVES: not AT,HOW,ADDRESS4,ADDRESS6");
    errno = 0;
    double seconds = strtod(fields[0], &end);
    if (errno || end == fields[0] || *end || !(seconds >= 0 && seconds < 1e6))
        fail("MOVES: not a time in seconds: %s", fields[0]);
    move.at = (uint64_t)(seconds * 1e6 + 0.5);
    move.is_interface = !strcmp(fields[1], "interface");
    if (!move.is_interface && strcmp(fields[1], "migrate"))
        fail("MOVES: neither migrate nor interface: %s", fields[1]);
    move.ipv4 = read_address(fields[2], AF_INET);
    move.ipv6 = read_address(fields[3], AF_INET6);
    if (!move.ipv4.ss_family && !move.ipv6.ss_family)
        fail("MOVES: no address at %s s", fields[0]);
    if (count && moves[count - 1].at >= move.at)
        fail("MOVES: not in order of time at %s s", fields[0]);
    return move;
}

bool read_moves(void)
{
    const char *text = getenv("MOVES");
    if (!text || !*text)
        return false;
    char *rest = strdup(text), *entry;
    moves = calloc(strlen(text), sizeof *moves);
    while ((entry = strsep(&rest, ";"))) {
        moves[count] = read_move(entry);
        count++;
    }
    return true;
}

void set_port(bool is_other, uint16_t port)
{
    ports[is_other] = htons(port);
}

void begin_moves(uint64_t now)
{
    if (!zero)
        zero = now;
}

uint64_t next_move(void)
{
    return zero && made < count && !waited ? zero + moves[made].at : UINT64_MAX;
}

static struct sockaddr_storage address_of(const struct move *move, const struct sockaddr *peer)
{
    struct sockaddr_storage address = peer->sa_family == AF_INET ? move->ipv4 : move->ipv6;
    if (!address.ss_family)
        fail("MOVES: no address of the connection's family at %.6f s", (double)move->at / 1e6);
    return address;
}

/* Where family, address and port of a socket are. */
static in_port_t *port_of(struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET ? &((struct sockaddr_in *)address)->sin_port
                                         : &((struct sockaddr_in6 *)address)->sin6_port;
}

void start_from_moved(struct st_picoquic_cnx_t *cnx, const struct sockaddr *peer, uint64_t now)
{
    /* Moves whose time came while there was no connection are behind it. */
    while (next_move() <= now)
        made++;
    if (!made)
        return;
    struct sockaddr_storage local = address_of(&moves[made - 1], peer);
    *port_of(&local) = ports[0];
    picoquic_set_local_addr(cnx, (struct sockaddr *)&local);
}

bool is_left(const struct sockaddr *address)
{
    if (!only.ss_family || address->sa_family != only.ss_family)
        return false;
    const struct sockaddr_storage *other = (const struct sockaddr_storage *)address;
    if (only.ss_family == AF_INET)
        return ((const struct sockaddr_in *)other)->sin_addr.s_addr != ((struct sockaddr_in *)&only)->sin_addr.s_addr;
    return memcmp(&((const struct sockaddr_in6 *)other)->sin6_addr, &((struct sockaddr_in6 *)&only)->sin6_addr,
                  sizeof(struct in6_addr));
}

static void tell(const struct move *move, struct sockaddr_storage *local, uint64_t now)
{
    char text[INET6_ADDRSTRLEN];
    const void *bytes = local->ss_family == AF_INET ? (void *)&((struct sockaddr_in *)local)->sin_addr
                                                    : (void *)&((struct sockaddr_in6 *)local)->sin6_addr;
    inet_ntop(local->ss_family, bytes, text, sizeof text);
    fprintf(stderr, "picoquic-endpoint: %s at %.6f s to %s port %d, told to at %g s%s\n",
            move->is_interface ? "interface" : "migrate", (double)(now - zero) / 1e6, text, ntohs(*port_of(local)),
            (double)move->at / 1e6, waited ? ", as soon as the handshake was confirmed" : "");
}

void make_moves(struct st_picoquic_cnx_t *cnx, uint64_t now)
{
    if (!zero || made == count || now < zero + moves[made].at)
        return;
    /* Until then the client must not (RFC 9000 §9). */
    if (picoquic_get_cnx_state(cnx) != picoquic_state_ready) {
        waited = true;
        return;
    }
    const struct move *move = &moves[made];
    struct sockaddr *peer;
    picoquic_get_peer_addr(cnx, &peer);
    struct sockaddr_storage local = address_of(move, peer);
    *port_of(&local) = ports[1];
    ports[1] = ports[0];
    ports[0] = *port_of(&local);
    int error = move->is_interface ? rebind(cnx, &local)
                                   : picoquic_probe_new_path_ex(cnx, peer, (struct sockaddr *)&local, 0, now, 0);
    if (error)
        fail("MOVES: picoquic does not move: error 0x%x", error);
    only = move->is_interface ? local : (struct sockaddr_storage){.ss_family = AF_UNSPEC};
    tell(move, &local, now);
    made++;
    waited = false;
}

void end_moves(void)
{
    for (; made < count; made++)
        fprintf(stderr, "picoquic-endpoint: no %s at %g s: %s\n", moves[made].is_interface ? "interface" : "migrate",
                (double)moves[made].at / 1e6,
                waited ? "the handshake was never confirmed" : "the client was done before");
}
