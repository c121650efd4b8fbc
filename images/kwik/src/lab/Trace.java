package lab;

import java.io.IOException;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import tech.kwik.core.frame.ConnectionCloseFrame;
import tech.kwik.core.frame.QuicFrame;
import tech.kwik.core.frame.StreamFrame;
import tech.kwik.core.log.QLog;
import tech.kwik.core.packet.InitialPacket;
import tech.kwik.core.packet.QuicPacket;
import tech.kwik.core.packet.RetryPacket;
import tech.kwik.core.packet.ShortHeaderPacket;
import tech.kwik.core.packet.VersionNegotiationPacket;
import tech.kwik.core.packet.ZeroRttPacket;

/**
 * A connection's qlog (draft-ietf-quic-qlog-main-schema-07, JSON text sequences), in QLOGDIR where that is set. kwik
 * says what happens; its own writer is a module that its packages do not bring.
 */
public class Trace implements QLog {
    private static final Path FOLDER = System.getenv("QLOGDIR") == null ? null : Path.of(System.getenv("QLOGDIR"));
    private static final Set<Trace> OPEN = ConcurrentHashMap.newKeySet();

    private final String role;
    private final byte[] connectionId;
    private Writer file;
    private boolean failed = FOLDER == null;
    private Instant start;
    private String metrics = "";

    /**
     * A trace that begins with the connection, or with its first packet.
     *
     * @param connectionId the original destination connection ID; null for a client's, whose first packet has it
     */
    protected Trace(String role, byte[] connectionId) {
        this.role = role;
        this.connectionId = connectionId;
    }

    /** Writes what is left of every trace. */
    static void flushAll() {
        OPEN.forEach(Trace::close);
    }

    /** Opens the file, named after the connection. */
    private void open(byte[] id, Instant now) {
        if (failed || file != null) {
            return;
        }
        String name = HexFormat.of().formatHex(id);
        start = now;
        try {
            Files.createDirectories(FOLDER);
            file = Files.newBufferedWriter(FOLDER.resolve(name + "_" + role + ".sqlog"));
            OPEN.add(this);
            line("{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON-SEQ\",\"title\":\"kwik\","
                    + "\"trace\":{\"vantage_point\":{\"type\":\"" + role + "\"},\"common_fields\":{\"ODCID\":\"" + name
                    + "\",\"time_format\":\"relative\",\"reference_time\":" + now.toEpochMilli() + "}}}");
        } catch (IOException error) {
            fail(error);
        }
    }

    private void event(Instant time, String name, String data) {
        if (file == null) {
            return;
        }
        double elapsed = Duration.between(start, time).toNanos() / 1e6;
        line(String.format(Locale.ROOT, "{\"time\":%.3f,\"name\":\"%s\",\"data\":%s}", elapsed, name, data));
    }

    private void line(String text) {
        try {
            file.write("\u001e" + text + "\n");
        } catch (IOException error) {
            fail(error);
        }
    }

    private void fail(IOException error) {
        failed = true;
        file = null;
        OPEN.remove(this);
        ConnectionLog.tell("no qlog: " + Endpoint.describe(error));
    }

    private static String header(QuicPacket packet) {
        String type = switch (packet) {
            case InitialPacket initial -> "initial";
            case ZeroRttPacket early -> "0RTT";
            case ShortHeaderPacket data -> "1RTT";
            case RetryPacket retry -> "retry";
            case VersionNegotiationPacket negotiation -> "version_negotiation";
            default -> "handshake";
        };
        boolean numbered = !(packet instanceof RetryPacket) && !(packet instanceof VersionNegotiationPacket);
        Long number = numbered ? packet.getPacketNumber() : null;
        return "{\"packet_type\":\"" + type + "\"" + (number == null ? "" : ",\"packet_number\":" + number) + "}";
    }

    private static String frame(QuicFrame frame) {
        if (frame instanceof StreamFrame stream) {
            return "{\"frame_type\":\"stream\",\"stream_id\":" + stream.getStreamId()
                    + ",\"offset\":" + stream.getOffset() + ",\"length\":" + stream.getLength()
                    + ",\"fin\":" + stream.isFinal() + "}";
        }
        if (frame instanceof ConnectionCloseFrame close) {
            return "{\"frame_type\":\"connection_close\",\"error_space\":\""
                    + (close.hasApplicationProtocolError() ? "application" : "transport")
                    + "\",\"error_code\":" + close.getErrorCode() + "}";
        }
        // MaxStreamDataFrame → max_stream_data.
        String name = frame.getClass().getSimpleName().replaceFirst("Frame$", "");
        return "{\"frame_type\":\"" + name.replaceAll("(?<=[a-z])(?=[A-Z])", "_").toLowerCase(Locale.ROOT) + "\"}";
    }

    private static String packet(QuicPacket packet) {
        int size = packet instanceof VersionNegotiationPacket ? 0 : packet.getSize();
        StringBuilder frames = new StringBuilder();
        for (QuicFrame frame : packet.getFrames()) {
            frames.append(frames.isEmpty() ? "" : ",").append(frame(frame));
        }
        return "{\"header\":" + header(packet) + ",\"raw\":{\"length\":" + size + "},\"frames\":[" + frames + "]}";
    }

    @Override
    public synchronized void emitConnectionCreatedEvent(Instant created) {
        open(connectionId, created);
    }

    @Override
    public synchronized void emitPacketSentEvent(QuicPacket packet, Instant sent) {
        if (connectionId == null) {
            open(packet.getDestinationConnectionId(), sent);
        }
        if (file != null) {
            event(sent, "transport:packet_sent", packet(packet));
        }
    }

    @Override
    public void emitPacketSentEvent(List<QuicPacket> packets, Instant sent) {
        packets.forEach(packet -> emitPacketSentEvent(packet, sent));
    }

    @Override
    public synchronized void emitPacketReceivedEvent(QuicPacket packet, Instant received) {
        if (file != null) {
            event(received, "transport:packet_received", packet(packet));
        }
    }

    @Override
    public synchronized void emitPacketLostEvent(QuicPacket packet, Instant lost) {
        event(lost, "recovery:packet_lost", "{\"header\":" + header(packet) + "}");
    }

    @Override
    public synchronized void emitCongestionControlMetrics(long window, long inFlight) {
        metrics("{\"congestion_window\":" + window + ",\"bytes_in_flight\":" + inFlight + "}");
    }

    @Override
    public void emitRttMetrics(int smoothed, int variance, int latest) {}

    @Override
    public synchronized void emitRecoveryMetrics(long window, long inFlight, int smoothed, int variance, int latest) {
        metrics("{\"congestion_window\":" + window + ",\"bytes_in_flight\":" + inFlight
                + ",\"smoothed_rtt\":" + smoothed + ",\"rtt_variance\":" + variance + ",\"latest_rtt\":" + latest + "}");
    }

    private void metrics(String figures) {
        if (!figures.equals(metrics)) {
            metrics = figures;
            event(Instant.now(), "recovery:metrics_updated", figures);
        }
    }

    @Override
    public synchronized void emitConnectionClosedEvent(Instant time) {
        event(time, "transport:connection_closed", "{\"owner\":\"local\",\"trigger\":\"idle_timeout\"}");
    }

    @Override
    public void emitConnectionClosedEvent(Instant time, long code, String reason) {
        // The packet's CONNECTION_CLOSE frame says whose code it is, the transport's or the application's.
    }

    @Override
    public void emitConnectionTerminatedEvent() {
        close();
    }

    /** Ends the file. */
    final synchronized void close() {
        OPEN.remove(this);
        if (file != null) {
            try {
                file.close();
            } catch (IOException error) {
                ConnectionLog.tell("no whole qlog: " + Endpoint.describe(error));
            }
            file = null;
            failed = true;
        }
    }
}
