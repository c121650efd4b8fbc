package lab;

import static java.nio.charset.StandardCharsets.US_ASCII;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodySubscribers;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import tech.kwik.agent15.TlsConstants.CipherSuite;
import tech.kwik.core.QuicClientConnection;
import tech.kwik.core.QuicClientConnection.StreamEarlyData;
import tech.kwik.core.QuicConnection.QuicVersion;
import tech.kwik.core.QuicSessionTicket;
import tech.kwik.core.QuicStream;
import tech.kwik.core.generic.VariableLengthInteger;
import tech.kwik.core.impl.QuicClientConnectionImpl;
import tech.kwik.flupke.Http3SingleConnectionClient;
import tech.kwik.qpack.Encoder;

/** The client: files over one connection or several, written as they arrive. */
final class Client {
    /** What the test case is by its own name; run_program.sh turns it into a plan. */
    private static final String ASKED = System.getenv().getOrDefault("ASKED", "");
    /** How long a client that has all its files waits for a session ticket it wants, ms. */
    private static final int TICKET_PATIENCE = 3000;
    /** How long it waits until its CONNECTION_CLOSE has left, ms. */
    private static final int CLOSE_PATIENCE = 1000;
    /** How long it takes kwik at most to handle a HANDSHAKE_DONE that its log has been told of, ms. */
    private static final int HANDLING = 20;
    /** Requests at a time: each waits in a thread of its own. */
    private static final int REQUESTS = 100;
    /** RFC 9114 §8.1. */
    private static final int H3_NO_ERROR = 0x100;
    private static final int CHUNK = 1 << 16;

    private final Options options;
    private final boolean keepsSession;
    private byte[] ticket;

    Client(Options options) {
        this.options = options;
        keepsSession = options.sessionFolder() != null || resumes();
    }

    private boolean resumes() {
        return options.plan().equals("resume") || options.plan().equals("early-data");
    }

    /** Gets all files, over as many connections as the plan says. Throws IOException where one is not whole. */
    void run() throws Exception {
        List<URI> urls = options.urls();
        if (resumes() && urls.size() < 2) {
            throw new IOException("this test needs two URLs");
        }
        Path kept = options.sessionFolder() == null ? null : options.sessionFolder().resolve("session.ticket");
        if (kept != null && Files.exists(kept)) {
            ticket = Files.readAllBytes(kept);
        }
        List<List<URI>> groups = switch (options.plan()) {
            case "each" -> urls.stream().map(List::of).toList();
            case "resume", "early-data" -> List.of(urls.subList(0, 1), urls.subList(1, urls.size()));
            default -> List.of(urls);
        };
        for (List<URI> group : groups) {
            fetch(group);
            if (kept != null && ticket != null) {
                Files.write(kept, ticket);
            }
        }
    }

    /** Gets files over one connection. */
    private void fetch(List<URI> urls) throws Exception {
        ConnectionLog log = ConnectionLog.ofClient();
        QuicClientConnection connection = build(urls.get(0), log);
        CompletableFuture<Void> ended = new CompletableFuture<>();
        connection.setConnectionListener(event -> {
            ConnectionLog.tellEnd(event);
            ended.completeExceptionally(new IOException("the connection ended before the files were whole"));
        });
        try {
            List<QuicStream> early = connect(connection, urls);
            if (ASKED.equals("keyupdate")) {
                updateKeys(connection, log);
            }
            CompletableFuture.anyOf(ended, get(connection, urls, early)).get();
            if (keepsSession) {
                awaitTicket(connection);
            }
        } catch (ExecutionException error) {
            throw error.getCause() instanceof Exception cause ? cause : error;
        } finally {
            // kwik's own way is to wait for the end of the closing period, in which it would resend the frame.
            if (connection.isConnected()) {
                connection.close(options.protocol().equals("h3") ? H3_NO_ERROR : 0, null);
                log.closed.await(CLOSE_PATIENCE, TimeUnit.MILLISECONDS);
            }
            ((Trace) log.getQLog()).close();
        }
    }

    private QuicClientConnection build(URI url, ConnectionLog log) throws IOException {
        QuicClientConnection.Builder builder = QuicClientConnection.newBuilder()
                .host(url.getHost())
                .port(url.getPort() < 0 ? 443 : url.getPort())
                .applicationProtocol(options.protocol())
                .noServerCertificateCheck()
                .maxIdleTimeout(options.idleTimeout())
                // A silent handshake ends as a silent connection does.
                .connectTimeout(options.idleTimeout())
                .logger(log);
        if (options.initialRtt() != null) {
            builder.initialRtt(options.initialRtt());
        }
        if (options.connectionWindow() != null) {
            // Of which kwik makes a connection window of ten times as much, which is raised below, but never lowered.
            builder.defaultStreamReceiveBufferSize(Options.LEAST_CONNECTION_WINDOW / 10);
        }
        if (ASKED.equals("chacha20")) {
            builder.cipherSuite(CipherSuite.TLS_CHACHA20_POLY1305_SHA256);
        }
        if (ASKED.equals("v2")) {
            builder.initialVersion(QuicVersion.V1).preferredVersion(QuicVersion.V2);
        }
        if (ticket != null) {
            builder.sessionTicket(ticket);
        }
        QuicClientConnection connection = builder.build();
        setWindows(connection);
        return connection;
    }

    // kwik's own way to set a connection window that is no multiple of ten.
    @SuppressWarnings("deprecation")
    private void setWindows(QuicClientConnection connection) {
        Long window = options.connectionWindow();
        Long stream = options.streamWindow();
        if (window != null) {
            // This sets the windows of streams, and raises the connection's to as much.
            connection.setDefaultStreamReceiveBufferSize(window);
            long usual = QuicClientConnectionImpl.DEFAULT_MAX_STREAM_DATA;
            connection.setDefaultUnidirectionalStreamReceiveBufferSize(Math.min(usual, window));
            // A stream's may not be more than the connection's, which is the limit then.
            connection.setDefaultBidirectionalStreamReceiveBufferSize(
                    Math.min(stream != null ? stream : usual, window));
        } else if (stream != null) {
            connection.setDefaultStreamReceiveBufferSize(stream);
        }
    }

    /** Connects. Where there is a session to resume, requests are early data: their streams, or null for none. */
    private List<QuicStream> connect(QuicClientConnection connection, List<URI> urls) throws IOException {
        boolean early = ticket != null && options.zeroRtt() && !options.plan().equals("resume");
        if (!early) {
            connection.connect();
            return List.of();
        }
        List<StreamEarlyData> requests = new ArrayList<>();
        for (URI url : urls) {
            requests.add(new StreamEarlyData(request(url), true));
        }
        return connection.connect(requests);
    }

    /** The bytes of a request. */
    private byte[] request(URI url) {
        if (!options.protocol().equals("h3")) {
            return ("GET " + url.getRawPath() + "\r\n").getBytes(US_ASCII);
        }
        // flupke sends nothing before the handshake's end, so that this HEADERS frame (RFC 9114 §7.2.2) is made here.
        ByteBuffer fields = Encoder.newBuilder().build().compressHeaders(List.of(
                Map.entry(":method", "GET"),
                Map.entry(":scheme", url.getScheme()),
                Map.entry(":authority", url.getAuthority()),
                Map.entry(":path", url.getRawPath())));
        fields.flip();
        ByteBuffer frame = ByteBuffer.allocate(fields.limit() + 16);
        VariableLengthInteger.encode(1, frame);
        VariableLengthInteger.encode(fields.limit(), frame);
        frame.put(fields).flip();
        byte[] bytes = new byte[frame.limit()];
        frame.get(bytes);
        return bytes;
    }

    /** Asks for the files, in no particular order; complete when all are there, or one has failed. */
    private CompletableFuture<Void> get(QuicClientConnection connection, List<URI> urls, List<QuicStream> early) {
        ThreadLocal<QuicStream> open = new ThreadLocal<>();
        HttpClient http = options.protocol().equals("h3")
                ? new Http3SingleConnectionClient(reusing(connection, open), options.idleTimeout(), null)
                : null;
        ExecutorService threads = Executors.newFixedThreadPool(Math.min(urls.size(), REQUESTS), task -> {
            Thread thread = new Thread(task, "download");
            thread.setDaemon(true);
            return thread;
        });
        CompletableFuture<Void> failure = new CompletableFuture<>();
        List<CompletableFuture<Void>> downloads = new ArrayList<>();
        for (int number = 0; number < urls.size(); number++) {
            URI url = urls.get(number);
            QuicStream stream = number < early.size() ? early.get(number) : null;
            downloads.add(CompletableFuture.runAsync(() -> {
                try {
                    Path file = options.downloads().resolve(Path.of(url.getPath()).getFileName());
                    if (http != null) {
                        open.set(stream);
                        getOverHttp3(http, url, file);
                    } else {
                        getOverHttp09(stream != null ? stream : send(connection, url), file);
                    }
                } catch (IOException | InterruptedException error) {
                    failure.completeExceptionally(new IOException(url + ": " + Endpoint.describe(error), error));
                } catch (RuntimeException error) {
                    failure.completeExceptionally(error);
                    throw error;
                }
            }, threads));
        }
        CompletableFuture<Void> all = CompletableFuture.allOf(downloads.toArray(CompletableFuture[]::new));
        all.thenRun(() -> failure.complete(null));
        return failure;
    }

    /** The connection, but that a thread with an open stream, on which the request has left, is given that one. */
    private static QuicClientConnection reusing(QuicClientConnection connection, ThreadLocal<QuicStream> open) {
        return Replacement.of(QuicClientConnection.class, connection, "createStream", arguments -> {
            QuicStream stream = open.get();
            if (stream == null || !Boolean.TRUE.equals(arguments[0])) {
                return connection.createStream((Boolean) arguments[0]);
            }
            open.remove();
            return Replacement.of(
                    QuicStream.class, stream, "getOutputStream", none -> OutputStream.nullOutputStream());
        });
    }

    private static void getOverHttp3(HttpClient http, URI url, Path file) throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(url).build();
        HttpResponse<Path> response = http.send(request, answer -> answer.statusCode() == 200
                ? BodySubscribers.ofFile(
                        file, StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.TRUNCATE_EXISTING)
                : BodySubscribers.replacing(null));
        if (response.statusCode() != 200) {
            throw new IOException("status " + response.statusCode());
        }
        long length = response.headers().firstValueAsLong("content-length").orElse(-1);
        if (length >= 0 && Files.size(file) != length) {
            throw new IOException(Files.size(file) + " of " + length + " bytes came");
        }
    }

    private QuicStream send(QuicClientConnection connection, URI url) throws IOException {
        QuicStream stream = connection.createStream(true);
        try (OutputStream out = stream.getOutputStream()) {
            out.write(request(url));
        }
        return stream;
    }

    private static void getOverHttp09(QuicStream stream, Path file) throws IOException {
        InputStream in = stream.getInputStream();
        byte[] buffer = new byte[CHUNK];
        // A stream that is reset at once leaves no file.
        int length = in.read(buffer);
        try (OutputStream out = Files.newOutputStream(file)) {
            for (; length >= 0; length = in.read(buffer)) {
                out.write(buffer, 0, length);
            }
        }
    }

    /** Updates the keys once the handshake is confirmed, by a method of kwik's that its interfaces lack. */
    private static void updateKeys(QuicClientConnection connection, ConnectionLog log) {
        Thread.ofPlatform().daemon().start(() -> {
            try {
                log.confirmed.await();
                Thread.sleep(HANDLING);
                ((QuicClientConnectionImpl) connection).updateKeys();
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        });
    }

    private void awaitTicket(QuicClientConnection connection) throws InterruptedException {
        List<QuicSessionTicket> tickets = connection.getNewSessionTickets();
        for (int waited = 0; tickets.isEmpty() && waited < TICKET_PATIENCE; waited++) {
            Thread.sleep(1);
        }
        if (!tickets.isEmpty()) {
            ticket = tickets.get(tickets.size() - 1).serialize();
        }
    }
}
