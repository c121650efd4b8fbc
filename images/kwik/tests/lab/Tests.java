package lab;

import java.io.IOException;
import java.util.List;
import java.util.Map;

/** What needs no connection. It ends with an exception where one is wrong. */
final class Tests {
    private Tests() {}

    private interface Attempt {
        void run() throws IOException;
    }

    public static void main(String[] arguments) throws IOException {
        optionsAreReadAsTheContractSays();
        optionsThatAreWrongAreRefused();
        aReplacementDiffersInOneMethod();
    }

    private static void optionsAreReadAsTheContractSays() throws IOException {
        Options client = Options.parse(new String[] {
            "client", "--protocol=hq-interop", "--plan=resume", "--initial-rtt=50.4", "--stream-window=16777216",
            "https://server:443/a", "https://server:443/b"
        });
        equal("hq-interop", client.protocol());
        equal("resume", client.plan());
        equal(50, client.initialRtt());
        equal(16_777_216L, client.streamWindow());
        equal(null, client.connectionWindow());
        equal(true, client.zeroRtt());
        equal(60_000L, client.idleTimeout().toMillis());
        equal(List.of("/a", "/b"), client.urls().stream().map(url -> url.getPath()).toList());
        Options server = Options.parse(new String[] {"server", "--retry", "--max-udp-payload=1200"});
        equal("h3", server.protocol());
        equal(true, server.retry());
        equal(1200, server.maxUdpPayload());
        equal(443, server.port());
    }

    private static void optionsThatAreWrongAreRefused() {
        List.of(
                        List.of("neither"),
                        List.of("client"),
                        List.of("client", "http://server/a"),
                        List.of("client", "https://server/"),
                        List.of("client", "--retry", "https://server/a"),
                        List.of("client", "--plan=two", "https://server/a"),
                        List.of("client", "--zero-rtt=yes", "https://server/a"),
                        List.of("client", "--initial-rtt=0", "https://server/a"),
                        List.of("client", "--connection-window=14999", "https://server/a"),
                        List.of("server", "https://server/a"),
                        List.of("server", "--max-udp-payload=1300"),
                        List.of("server", "--stream-window=much"),
                        List.of("server", "--pacing=on"))
                .forEach(words -> refused(words.toString(), () -> Options.parse(words.toArray(String[]::new))));
    }

    private static void aReplacementDiffersInOneMethod() {
        Map<?, ?> map = Replacement.of(Map.class, Map.of("a", 1), "size", none -> 7);
        equal(7, map.size());
        equal(1, map.get("a"));
    }

    private static void equal(Object expected, Object actual) {
        if (expected == null ? actual != null : !expected.equals(actual)) {
            throw new AssertionError("expected " + expected + ", not " + actual);
        }
    }

    private static void refused(String what, Attempt attempt) {
        try {
            attempt.run();
        } catch (IOException right) {
            return;
        }
        throw new AssertionError("not refused: " + what);
    }
}
