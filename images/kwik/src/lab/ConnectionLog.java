package lab;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import tech.kwik.core.ConnectionTerminatedEvent;
import tech.kwik.core.frame.ConnectionCloseFrame;
import tech.kwik.core.frame.CryptoFrame;
import tech.kwik.core.frame.HandshakeDoneFrame;
import tech.kwik.core.log.BaseLogger;
import tech.kwik.core.log.QLog;
import tech.kwik.core.packet.InitialPacket;
import tech.kwik.core.packet.QuicPacket;

/**
 * What kwik tells its log of a client's connection, or of all connections of a server: errors go to stderr, secrets to
 * SSLKEYLOGFILE, and a client's packets to a qlog.
 *
 * <p>kwik has a file of secrets of its own for clients alone, which it empties for each connection. Its log is told of
 * the secrets in both roles, without the client's random value that a key log names them by. The ClientHello has that.
 */
final class ConnectionLog extends BaseLogger {
    /** Where secrets are appended; null where nobody wants them. */
    private static final Path KEYS =
            System.getenv("SSLKEYLOGFILE") == null ? null : Path.of(System.getenv("SSLKEYLOGFILE"));

    /** kwik's words → the label in a key log. */
    private static final Map<String, String> LABELS = Map.of(
            "ClientHandshakeTrafficSecret: ", "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
            "ServerHandshakeTrafficSecret: ", "SERVER_HANDSHAKE_TRAFFIC_SECRET",
            "ClientApplicationTrafficSecret: ", "CLIENT_TRAFFIC_SECRET_0",
            "ServerApplicationTrafficSecret: ", "SERVER_TRAFFIC_SECRET_0");

    /** Codes of a close without an error: H3_NO_ERROR (RFC 9114 §8.1), and 0 over HTTP/0.9. */
    private static final Set<Long> CLEAN = Set.of(0L, 0x100L);

    /** Where the random value of a ClientHello begins and ends: after type, length and version (RFC 8446 §4.1.2). */
    private static final int RANDOM_START = 6, RANDOM_END = 38;

    /** The name of a server's thread that handles a connection ends with its first destination connection ID. */
    private static final String THREAD = "receiver-";

    private final Trace trace;
    private final boolean client;
    /** Of a client's only connection. */
    private volatile String random = "";
    /** Of a server's, by original destination connection ID. */
    private final Map<String, String> randoms = new ConcurrentHashMap<>();

    /** Counted down as a HANDSHAKE_DONE frame comes. */
    final CountDownLatch confirmed = new CountDownLatch(1);
    /** Counted down as a CONNECTION_CLOSE frame has left. */
    final CountDownLatch closed = new CountDownLatch(1);

    private ConnectionLog(boolean client) {
        this.client = client;
        trace = client ? new Trace("client", null) : null;
    }

    /** The log of one connection of a client. */
    static ConnectionLog ofClient() {
        return new ConnectionLog(true);
    }

    /** The log of a server. kwik opens the qlog of each connection itself. */
    static ConnectionLog ofServer() {
        return new ConnectionLog(false);
    }

    /** Writes a line to stderr. */
    static void tell(String message) {
        System.err.println("kwik-endpoint: " + message);
    }

    /** Tells how a connection ended, unless an end closed it without an error. */
    static void tellEnd(ConnectionTerminatedEvent event) {
        boolean clean = !event.hasTransportError()
                && (!event.hasApplicationError() || CLEAN.contains(event.applicationErrorCode()));
        switch (event.closeReason()) {
            case IdleTimeout -> tell("the connection ended: idle timeout");
            // Packets were sent since the last one came, and none was acknowledged.
            case ConnectionLost -> tell("the connection ended: idle timeout, with packets unacknowledged");
            case StatelessReset -> tell("the connection ended: stateless reset");
            case ImmediateClose -> {
                if (!clean) {
                    String error = event.hasTransportError()
                            ? String.format("0x%x", event.transportErrorCode())
                            : String.format("application 0x%x", event.applicationErrorCode());
                    tell("the connection was closed " + (event.closedByPeer() ? "by the peer: " : "here: ") + error);
                }
            }
        }
    }

    @Override
    public QLog getQLog() {
        return client ? trace : super.getQLog();
    }

    @Override
    public void received(Instant time, int datagram, QuicPacket packet) {
        if (client) {
            trace.emitPacketReceivedEvent(packet, time);
            if (packet.getFrames().stream().anyMatch(HandshakeDoneFrame.class::isInstance)) {
                confirmed.countDown();
            }
        } else if (packet instanceof InitialPacket) {
            String value = clientRandom(packet);
            if (value != null) {
                randoms.put(HexFormat.of().formatHex(packet.getDestinationConnectionId()), value);
            }
        }
    }

    @Override
    public void sent(Instant time, List<QuicPacket> packets) {
        for (QuicPacket packet : packets) {
            if (client && packet instanceof InitialPacket && random.isEmpty()) {
                String value = clientRandom(packet);
                random = value == null ? "" : value;
            }
            if (packet.getFrames().stream().anyMatch(ConnectionCloseFrame.class::isInstance)) {
                closed.countDown();
            }
        }
    }

    private static String clientRandom(QuicPacket packet) {
        return packet.getFrames().stream()
                .filter(frame -> frame instanceof CryptoFrame crypto && crypto.getOffset() == 0
                        && crypto.getLength() >= RANDOM_END)
                .map(frame -> HexFormat.of().formatHex(((CryptoFrame) frame).getStreamData(), RANDOM_START, RANDOM_END))
                .findFirst()
                .orElse(null);
    }

    @Override
    public void secret(String message, byte[] secret) {
        String label = LABELS.get(message);
        if (KEYS == null || label == null) {
            return;
        }
        String thread = Thread.currentThread().getName();
        String name = client ? random : randoms.get(thread.startsWith(THREAD) ? thread.substring(THREAD.length()) : "");
        if (name == null || name.isEmpty()) {
            return;
        }
        String line = label + " " + name + " " + HexFormat.of().formatHex(secret) + "\n";
        try {
            Files.writeString(KEYS, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            tell("cannot write " + KEYS + ": " + Endpoint.describe(error));
        }
    }

    @Override
    public void error(String message) {
        tell(message);
    }

    @Override
    public void error(String message, Throwable error) {
        tell(message.strip() + ": " + error);
    }

    @Override
    protected void log(String message) {
        tell(message);
    }

    @Override
    protected void log(String message, Throwable error) {
        tell(message + ": " + error);
    }

    @Override
    protected void logWithHexDump(String message, byte[] data, int length) {
        tell(message);
    }

    @Override
    protected void logWithHexDump(String message, ByteBuffer data, int offset, int length) {
        tell(message);
    }
}
