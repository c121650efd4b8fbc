#define _GNU_SOURCE
#include "options.h"
#include "endpoint.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A bound so that no arithmetic on a number that was asked for overflows. */
#define LARGEST (1LL << 50)

_Noreturn void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("picoquic-endpoint: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

/* A number of at least `least` and, where `unit` > 1, with decimals: what is read times `unit`. */
static int64_t number(const char *word, const char *value, int64_t unit, int64_t least)
{
    char *end;
    errno = 0;
    double read = strtod(value, &end) * (double)unit;
    int64_t result = (int64_t)(read + 0.5);
    bool is_whole = (double)result == read || unit > 1;
    if (errno || end == value || *end || !(read >= 0 && read < (double)LARGEST) || !is_whole || result < least)
        fail("%s: not a suitable number", word);
    return result;
}

static bool on_or_off(const char *word, const char *value)
{
    if (strcmp(value, "on") && strcmp(value, "off"))
        fail("%s: on or off", word);
    return !strcmp(value, "on");
}

/* The place of a value in a list that ends with NULL. */
static int one_of(const char *word, const char *value, const char *const *list)
{
    for (int i = 0; list[i]; i++)
        if (!strcmp(value, list[i]))
            return i;
    fail("%s: unknown value", word);
}

/* "https://host[:port]/path"; an IPv6 address stands in brackets. */
static struct url parse_url(const char *text, const char *downloads)
{
    struct url url = {NULL, "443", NULL, NULL};
    static const char scheme[] = "https://";
    const char *authority = text + strlen(scheme);
    const char *slash = strncmp(text, scheme, strlen(scheme)) ? NULL : strchr(authority, '/');
    if (!slash)
        fail("not a usable URL: %s", text);
    char *host = strndup(authority, (size_t)(slash - authority));
    char *colon = strrchr(host, ':');
    if (colon && !strchr(colon, ']')) {
        *colon = 0;
        url.port = colon + 1;
    }
    char *bracket = strchr(host, ']');
    if (*host == '[' && bracket) {
        *bracket = 0;
        host++;
    }
    url.host = host;
    url.path = strdup(slash);
    const char *name = strrchr(url.path, '/') + 1;
    if (!*host || !*name || !strcmp(name, ".") || !strcmp(name, ".."))
        fail("not a usable URL: %s", text);
    if (asprintf(&url.file, "%s/%s", downloads, name) < 0)
        fail("out of memory");
    return url;
}

/* Sets one option; false if there is none of that name. */
static bool set(struct options *o, const char *name, const char *word, const char *value)
{
    static const char *const protocols[] = {"hq-interop", "h3", NULL};
    static const char *const plans[] = {"single", "each", "resume", "early-data", NULL};
    static const char *const seeds[] = {"jump-start", "bdp-frame", "off", NULL};
    const struct {
        const char *name;
        const char **to;
    } texts[] = {
        {"downloads", &o->downloads},     {"root", &o->root},
        {"certificate", &o->certificate}, {"private-key", &o->private_key},
        {"session-dir", &o->session_dir}, {"congestion-control", &o->congestion_control},
    };
    const struct {
        const char *name;
        int64_t *to, unit, least;
    } numbers[] = {
        {"port", &o->port, 1, 1},
        {"initial-cwnd", &o->initial_cwnd, 1, 1},
        {"initial-rtt", &o->initial_rtt, 1000, 1000},
        {"ack-ratio", &o->ack_ratio, 1, 1},
        {"max-ack-delay", &o->max_ack_delay, 1000, 1000},
        {"ack-delay-exponent", &o->ack_delay_exponent, 1, 0},
        {"connection-window", &o->connection_window, 1, 1},
        {"stream-window", &o->stream_window, 1, 1},
        {"max-udp-payload", &o->max_udp_payload, 1, 1200},
    };
    const struct {
        const char *name;
        bool *to;
    } switches[] = {
        {"path-mtu-discovery", &o->path_mtu_discovery}, {"gso", &o->gso},
        {"ecn", &o->ecn},                               {"zero-rtt", &o->zero_rtt},
        {"ack-frequency", &o->ack_frequency},
    };
#define COUNT(list) (sizeof(list) / sizeof *(list))
    for (size_t i = 0; i < COUNT(texts); i++)
        if (!strcmp(name, texts[i].name))
            return *texts[i].to = value, true;
    for (size_t i = 0; i < COUNT(numbers); i++)
        if (!strcmp(name, numbers[i].name))
            return *numbers[i].to = number(word, value, numbers[i].unit, numbers[i].least), true;
    for (size_t i = 0; i < COUNT(switches); i++)
        if (!strcmp(name, switches[i].name))
            return *switches[i].to = on_or_off(word, value), true;
    if (!strcmp(name, "protocol"))
        return o->http3 = one_of(word, value, protocols), true;
    if (!strcmp(name, "plan"))
        return o->plan = (enum plan)one_of(word, value, plans), true;
    if (!strcmp(name, "bdp-seed"))
        return o->bdp_seed = (enum bdp_seed)one_of(word, value, seeds), true;
    return false;
}

struct options parse_options(int count, char **words)
{
    struct options o = {
        .downloads = "/downloads", .root = "/www", .certificate = "/certs/cert.pem", .private_key = "/certs/priv.key",
        .port = 443, .initial_cwnd = -1, .initial_rtt = -1, .ack_ratio = -1, .max_ack_delay = -1,
        .ack_delay_exponent = -1, .connection_window = -1, .stream_window = -1, .max_udp_payload = -1,
        .path_mtu_discovery = true, .gso = true, .ecn = true, .zero_rtt = true, .ack_frequency = true,
    };
    if (count < 2 || (strcmp(words[1], "client") && strcmp(words[1], "server")))
        fail("usage: picoquic-endpoint (client|server) [--option=value ...] [URL ...]");
    o.is_server = !strcmp(words[1], "server");
    o.urls = calloc((size_t)count, sizeof *o.urls);
    int i = 2;
    for (; i < count && !strncmp(words[i], "--", 2); i++) {
        char *name = strdup(words[i] + 2), *value = strchr(name, '=');
        if (value)
            *value++ = 0;
        if (!value && !strcmp(name, "retry"))
            o.retry = true;
        else if (!value || !set(&o, name, words[i], value))
            fail("unknown option: %s", words[i]);
    }
    for (; i < count; i++)
        o.urls[o.url_count++] = parse_url(words[i], o.downloads);
    o.moves = !o.is_server && read_moves();
    if (o.is_server != !o.url_count)
        fail(o.is_server ? "a server takes no URL" : "no URL");
    return o;
}
