// The moves that a client is told to make (MOVES=AT,HOW,ADDRESS4,ADDRESS6[;AT,HOW,…]), preloaded into gtlsclient: its
// --change-local-addr makes one move, to the address that the system's routes name, and counts from the end of the
// handshake. Here its timer is set again and again to the times that were told, counted from the first datagram, and
// its sockets are bound to the addresses that were told.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <ev.h>
#include <ngtcp2/ngtcp2.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <string>

namespace {

// What run_endpoint.sh gives as --change-local-addr, in seconds, by which the timer is known.
constexpr double MARK = 7777777;
// How often to ask whether the connection may move, in seconds, where it is late.
constexpr double LOOK = 0.001;

using Callback = void (*)(struct ev_loop *, ev_timer *, int);

struct Move {
  double at;  // s after the first datagram
  bool interface;
  std::string ipv4, ipv6;
};

std::deque<Move> left;
double zero = -1;  // when the first datagram left, s of the monotonic clock
bool waited, moving;
ngtcp2_conn *connection;
Callback theirs;
ev_timer *expiry;  // the program's timer for what the library has to do

[[noreturn]] void fail(const std::string &reason) {
  std::fprintf(stderr, "gtlsclient: MOVES: %s\n", reason.c_str());
  std::_Exit(1);
}

template <typename Function>
Function *original(const char *name, Function *) {
  return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}
#define THEIRS(function) original(#function, &function)

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// The next part of a text, up to a separator.
std::string part(std::string &text, char separator) {
  auto end = text.find(separator);
  auto found = text.substr(0, end);
  text = end == std::string::npos ? "" : text.substr(end + 1);
  return found;
}

void check(int family, const std::string &address) {
  in6_addr unused;
  if (!address.empty() && inet_pton(family, address.c_str(), &unused) != 1) fail("not an address: " + address);
}

void end() {
  for (const auto &move : left)
    std::fprintf(stderr, "gtlsclient: no %s at %g s: %s\n", move.interface ? "interface" : "migrate", move.at,
                 waited ? "the handshake was never confirmed" : "the client was done before");
}

bool read() {
  const char *told = std::getenv("MOVES");
  std::string text = told ? told : "";
  while (!text.empty()) {
    auto entry = part(text, ';');
    auto whole = entry;
    auto at = part(entry, ','), how = part(entry, ','), ipv4 = part(entry, ','), ipv6 = entry;
    char *end;
    Move move{std::strtod(at.c_str(), &end), how == "interface", ipv4, ipv6};
    if (at.empty() || *end || !std::isfinite(move.at) || move.at < 0) fail("not a time in seconds: " + whole);
    if (how != "interface" && how != "migrate") fail("neither migrate nor interface: " + whole);
    check(AF_INET, ipv4);
    check(AF_INET6, ipv6);
    if (ipv4.empty() && ipv6.empty()) fail("no address: " + whole);
    if (!left.empty() && left.back().at >= move.at) fail("not in order of time: " + whole);
    left.push_back(move);
  }
  return std::atexit(end) == 0;
}

// As the object is loaded, behind the list.
[[maybe_unused]] const bool is_read = read();

void arm(struct ev_loop *loop, ev_timer *timer, double delay) {
  ev_now_update(loop);
  ev_timer_set(timer, delay > 0 ? delay : 0., 0.);
  THEIRS(ev_timer_start)(loop, timer);
}

// Before the handshake is confirmed, or without a connection ID for another path, the library will not. Whether it
// would, is asked with a path to which there is no need to move.
bool may_move() {
  return ngtcp2_conn_initiate_migration(connection, ngtcp2_conn_get_path(connection),
                                        static_cast<ngtcp2_tstamp>(now() * 1e9)) == NGTCP2_ERR_INVALID_ARGUMENT;
}

void on_time(struct ev_loop *loop, ev_timer *timer, int events) {
  if (!may_move()) {
    waited = true;
    arm(loop, timer, LOOK);
    return;
  }
  moving = true;
  theirs(loop, timer, events);
  moving = false;
  // The program sends when something comes or its timer ends, and to an address that is gone nothing comes.
  if (expiry) ev_feed_event(loop, expiry, EV_TIMER);
  waited = false;
  left.pop_front();
  if (!left.empty()) arm(loop, timer, zero + left.front().at - now());
}

}  // namespace

extern "C" {

ssize_t sendmsg(int socket, const msghdr *message, int flags) {
  if (zero < 0 && message->msg_name) zero = now();
  return THEIRS(sendmsg)(socket, message, flags);
}

int ngtcp2_conn_client_new_versioned(ngtcp2_conn **conn, const ngtcp2_cid *dcid, const ngtcp2_cid *scid,
                                     const ngtcp2_path *path, uint32_t version, int callbacks_version,
                                     const ngtcp2_callbacks *callbacks, int settings_version,
                                     const ngtcp2_settings *settings, int parameters_version,
                                     const ngtcp2_transport_params *parameters, const ngtcp2_mem *memory,
                                     void *context) {
  int error = THEIRS(ngtcp2_conn_client_new_versioned)(conn, dcid, scid, path, version, callbacks_version, callbacks,
                                                       settings_version, settings, parameters_version, parameters,
                                                       memory, context);
  connection = *conn;
  return error;
}

void ev_timer_start(struct ev_loop *loop, ev_timer *timer) noexcept {
  if (left.empty() || timer->at != MARK) {
    THEIRS(ev_timer_start)(loop, timer);
    return;
  }
  theirs = ev_cb(timer);
  ev_set_cb(timer, on_time);
  double delay = zero + left.front().at - now();
  // It comes here at the end of the handshake.
  waited = delay < 0;
  arm(loop, timer, delay);
}

void ev_timer_again(struct ev_loop *loop, ev_timer *timer) noexcept {
  expiry = timer;
  THEIRS(ev_timer_again)(loop, timer);
}

int bind(int socket, const sockaddr *address, socklen_t length) noexcept {
  sockaddr_storage to{};
  if (!moving || (address->sa_family != AF_INET && address->sa_family != AF_INET6))
    return THEIRS(bind)(socket, address, length);
  const auto &move = left.front();
  bool four = address->sa_family == AF_INET;
  const auto &text = four ? move.ipv4 : move.ipv6;
  void *bytes = four ? static_cast<void *>(&reinterpret_cast<sockaddr_in *>(&to)->sin_addr)
                     : static_cast<void *>(&reinterpret_cast<sockaddr_in6 *>(&to)->sin6_addr);
  if (text.empty()) fail("no address of the connection's family");
  inet_pton(address->sa_family, text.c_str(), bytes);
  to.ss_family = address->sa_family;
  int error = THEIRS(bind)(socket, reinterpret_cast<sockaddr *>(&to), length);
  if (error) fail(text + ": " + std::strerror(errno));
  getsockname(socket, reinterpret_cast<sockaddr *>(&to), &length);
  // IPv4 and IPv6 have the port in the same place.
  std::fprintf(stderr, "gtlsclient: %s at %.6f s to %s port %d, told to at %g s%s\n",
               move.interface ? "interface" : "migrate", now() - zero, text.c_str(),
               ntohs(reinterpret_cast<sockaddr_in *>(&to)->sin_port), move.at,
               waited ? ", as soon as the handshake was confirmed" : "");
  return 0;
}

int ngtcp2_conn_initiate_migration(ngtcp2_conn *conn, const ngtcp2_path *path, ngtcp2_tstamp time) {
  if (moving && left.front().interface) return ngtcp2_conn_initiate_immediate_migration(conn, path, time);
  return THEIRS(ngtcp2_conn_initiate_migration)(conn, path, time);
}

}
