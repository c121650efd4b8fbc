package lab;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The command line, the same for all of our endpoints as far as the stack honours it. What is null is left to kwik.
 *
 * @param initialRtt before the first sample, in whole milliseconds, as kwik counts
 * @param maxUdpPayload the largest UDP payload that is sent, bytes
 */
record Options(
        String role,
        String protocol,
        String plan,
        Path downloads,
        Path sessionFolder,
        boolean zeroRtt,
        Integer initialRtt,
        Duration idleTimeout,
        int maxUdpPayload,
        Long connectionWindow,
        Long streamWindow,
        int port,
        Path root,
        Path certificate,
        Path privateKey,
        boolean retry,
        List<URI> urls) {
    /** What kwik's packets have over IPv4, 20 bytes less over IPv6. It has this size and 1200, and no other. */
    static final int USUAL_PAYLOAD = 1252;
    /** The smallest size that every path takes (RFC 9000 §14), bytes. */
    static final int LEAST_PAYLOAD = 1200;
    /** The smallest connection window that a client can be told, bytes: ten times the least of a stream's. */
    static final long LEAST_CONNECTION_WINDOW = 15_000;
    /** The smallest stream window that kwik takes in both roles, bytes. */
    static final long LEAST_STREAM_WINDOW = 5 * 1024;

    private static final Set<String> COMMON =
            Set.of("protocol", "idle-timeout", "initial-rtt", "connection-window", "stream-window");
    private static final Map<String, Set<String>> OWN = Map.of(
            "client", Set.of("plan", "downloads", "session-dir", "zero-rtt"),
            "server", Set.of("max-udp-payload", "port", "root", "certificate", "private-key", "retry"));

    /** Reads the command line. Throws IOException for what the program does not know or take. */
    static Options parse(String[] arguments) throws IOException {
        String role = arguments.length > 0 ? arguments[0] : "";
        if (!OWN.containsKey(role)) {
            throw new IOException("the first word must be client or server, not \"" + role + "\"");
        }
        Map<String, String> given = new HashMap<>();
        List<URI> urls = new ArrayList<>();
        for (String word : List.of(arguments).subList(1, arguments.length)) {
            if (!word.startsWith("--")) {
                urls.add(url(word));
                continue;
            }
            String[] parts = word.substring(2).split("=", 2);
            if (!COMMON.contains(parts[0]) && !OWN.get(role).contains(parts[0])) {
                throw new IOException("a " + role + " has no option " + word);
            }
            given.put(parts[0], parts.length > 1 ? parts[1] : "");
        }
        if (urls.isEmpty() == role.equals("client")) {
            throw new IOException(role.equals("client") ? "no URL to fetch" : "a server takes no URL");
        }
        Long initialRtt = number(given, "initial-rtt", 1, 60_000);
        Long idleTimeout = number(given, "idle-timeout", 10, Integer.MAX_VALUE);
        Long payload = number(given, "max-udp-payload", LEAST_PAYLOAD, USUAL_PAYLOAD);
        if (payload != null && payload != LEAST_PAYLOAD && payload != USUAL_PAYLOAD) {
            throw new IOException("kwik's datagrams have " + LEAST_PAYLOAD + " or " + USUAL_PAYLOAD + " bytes");
        }
        Long port = number(given, "port", 1, 65_535);
        return new Options(
                role,
                word(given, "protocol", "h3", "hq-interop"),
                word(given, "plan", "single", "each", "resume", "early-data"),
                Path.of(given.getOrDefault("downloads", "/downloads")),
                given.containsKey("session-dir") ? Path.of(given.get("session-dir")) : null,
                word(given, "zero-rtt", "on", "off").equals("on"),
                initialRtt == null ? null : initialRtt.intValue(),
                // A silence of half a minute, kwik's own default for servers, is within what scenarios have.
                Duration.ofMillis(idleTimeout == null ? 60_000 : idleTimeout),
                payload == null ? USUAL_PAYLOAD : payload.intValue(),
                number(given, "connection-window", LEAST_CONNECTION_WINDOW, Long.MAX_VALUE >> 2),
                number(given, "stream-window", LEAST_STREAM_WINDOW, Long.MAX_VALUE >> 2),
                port == null ? 443 : port.intValue(),
                Path.of(given.getOrDefault("root", "/www")),
                Path.of(given.getOrDefault("certificate", "/certs/cert.pem")),
                Path.of(given.getOrDefault("private-key", "/certs/priv.key")),
                given.containsKey("retry"),
                List.copyOf(urls));
    }

    private static URI url(String text) throws IOException {
        try {
            URI url = new URI(text);
            String path = url.getPath();
            if ("https".equals(url.getScheme()) && url.getHost() != null && path != null && !path.endsWith("/")
                    && !path.isEmpty()) {
                return url;
            }
        } catch (URISyntaxException error) {
            throw new IOException("not a usable URL: " + text, error);
        }
        throw new IOException("not a usable URL: " + text);
    }

    /** The first of the words is the default. */
    private static String word(Map<String, String> given, String name, String... words) throws IOException {
        String value = given.getOrDefault(name, words[0]);
        if (!List.of(words).contains(value)) {
            throw new IOException("--" + name + " must be one of " + String.join(", ", words) + ", not " + value);
        }
        return value;
    }

    private static Long number(Map<String, String> given, String name, long least, long most) throws IOException {
        if (!given.containsKey(name)) {
            return null;
        }
        try {
            // Durations come with a fraction; kwik counts in whole milliseconds.
            long value = Math.round(Double.parseDouble(given.get(name)));
            if (value >= least && value <= most) {
                return value;
            }
        } catch (NumberFormatException error) {
            throw new IOException("--" + name + " must be a number, not " + given.get(name), error);
        }
        throw new IOException("--" + name + " must lie between " + least + " and " + most + ", not " + given.get(name));
    }
}
