package lab;

import static java.nio.charset.StandardCharsets.US_ASCII;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.DatagramSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.interfaces.ECKey;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import tech.kwik.core.QuicConnection;
import tech.kwik.core.QuicConnection.QuicVersion;
import tech.kwik.core.QuicStream;
import tech.kwik.core.server.ApplicationProtocolConnection;
import tech.kwik.core.server.ApplicationProtocolConnectionFactory;
import tech.kwik.core.server.ServerConnectionConfig;
import tech.kwik.core.server.ServerConnector;
import tech.kwik.flupke.server.Http3ApplicationProtocolFactory;
import tech.kwik.flupke.server.HttpServerRequest;
import tech.kwik.flupke.server.HttpServerResponse;

/** The server: files from a folder, read as the connection takes them. */
final class Server {
    /** What kwik's server has where it is told nothing of windows and streams, bytes and streams. */
    private static final long CONNECTION_WINDOW = 10_000_000, STREAM_WINDOW = 1_000_000;
    private static final int REQUESTS = 100, UNIDIRECTIONAL = 10;
    /** How long connections have to be closed when the server is told to stop, ms. */
    private static final int CLOSE_PATIENCE = 500;
    /** The longest request line over HTTP/0.9, bytes. */
    private static final int LINE = 8192;
    /** Bytes of a file at once. */
    private static final int CHUNK = 1 << 14;

    private final ExecutorService threads = Executors.newCachedThreadPool();
    private volatile ServerConnector connector;
    private Path root;

    /** Serves until the process ends. Throws an exception where it cannot begin. */
    void run(Options options) throws Exception {
        root = options.root().toRealPath();
        PrivateKey key = privateKey(options.privateKey());
        KeyStore store = KeyStore.getInstance("PKCS12");
        char[] password = "unused".toCharArray();
        store.load(null, null);
        store.setKeyEntry("server", key, password, certificates(options.certificate()));
        ServerConnector server = ServerConnector.builder()
                .withSocket(new DatagramSocket(options.port()))
                .withKeyStore(store, "server", password, curve(key))
                .withSupportedVersion(QuicVersion.V2)
                .withConfiguration(configuration(options))
                .withLogger(ConnectionLog.ofServer())
                .build();
        server.registerApplicationProtocol(
                options.protocol(), options.protocol().equals("h3") ? http3() : new Http09());
        server.start();
        connector = server;
        new CountDownLatch(1).await();
    }

    /** Closes what there is, and comes back soon. */
    void stop() {
        ServerConnector server = connector;
        if (server == null) {
            return;
        }
        // kwik waits for half a minute until the last connection is forgotten.
        Thread closing = Thread.ofPlatform().daemon().start(server::close);
        try {
            closing.join(CLOSE_PATIENCE);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private static ServerConnectionConfig configuration(Options options) {
        long connection = options.connectionWindow() != null
                ? options.connectionWindow()
                : Math.max(CONNECTION_WINDOW, options.streamWindow() == null ? 0 : options.streamWindow());
        ServerConnectionConfig made = ServerConnectionConfig.builder()
                .maxIdleTimeout(Math.toIntExact(options.idleTimeout().toMillis()))
                .maxConnectionBufferSize(connection)
                // A stream's may not be more than the connection's, which is the limit then.
                .maxBidirectionalStreamBufferSize(
                        Math.min(options.streamWindow() != null ? options.streamWindow() : STREAM_WINDOW, connection))
                .maxUnidirectionalStreamBufferSize(Math.min(STREAM_WINDOW, connection))
                .maxOpenPeerInitiatedBidirectionalStreams(REQUESTS)
                .maxOpenPeerInitiatedUnidirectionalStreams(UNIDIRECTIONAL)
                .useStrictSmallestAllowedMaximumDatagramSize(options.maxUdpPayload() == Options.LEAST_PAYLOAD)
                .retryRequired(options.retry())
                .build();
        if (options.initialRtt() == null) {
            return made;
        }
        // The builder has no such setting, but connections ask the configuration for it.
        return Replacement.of(ServerConnectionConfig.class, made, "initialRtt", none -> options.initialRtt());
    }

    private static PrivateKey privateKey(Path path) throws IOException, GeneralSecurityException {
        String text = Files.readString(path).replaceAll("-----[^-]*-----|\\s", "");
        PKCS8EncodedKeySpec encoded = new PKCS8EncodedKeySpec(Base64.getDecoder().decode(text));
        try {
            return KeyFactory.getInstance("EC").generatePrivate(encoded);
        } catch (GeneralSecurityException error) {
            return KeyFactory.getInstance("RSA").generatePrivate(encoded);
        }
    }

    /** kwik's name of a key's curve; null for RSA. */
    private static String curve(PrivateKey key) {
        return key instanceof ECKey curve ? "secp" + curve.getParams().getOrder().bitLength() + "r1" : null;
    }

    private static Certificate[] certificates(Path path) throws IOException, GeneralSecurityException {
        try (InputStream in = Files.newInputStream(path)) {
            return CertificateFactory.getInstance("X.509").generateCertificates(in).toArray(Certificate[]::new);
        }
    }

    /** The file that a request's target names; null where there is none. */
    private Path find(String target) throws IOException {
        String name = target.split("\\?", 2)[0].replaceFirst("^/+", "");
        Path path = root.resolve(name).normalize();
        return path.startsWith(root) && Files.isRegularFile(path) && path.toRealPath().startsWith(root) ? path : null;
    }

    private static void send(Path path, OutputStream out) throws IOException {
        byte[] buffer = new byte[CHUNK];
        try (InputStream in = Files.newInputStream(path)) {
            for (int length = in.read(buffer); length >= 0; length = in.read(buffer)) {
                out.write(buffer, 0, length);
            }
        }
        out.close();
    }

    private ApplicationProtocolConnectionFactory http3() {
        Http3ApplicationProtocolFactory factory = new Http3ApplicationProtocolFactory(this::answer);
        return Replacement.of(ApplicationProtocolConnectionFactory.class, factory, "createConnection", arguments -> {
            QuicConnection connection = (QuicConnection) arguments[1];
            connection.setConnectionListener(ConnectionLog::tellEnd);
            return factory.createConnection((String) arguments[0], connection);
        });
    }

    private void answer(HttpServerRequest request, HttpServerResponse response) throws IOException {
        Path path = find(request.path());
        if (path == null) {
            response.setStatus(404);
            return;
        }
        response.setStatus(200);
        response.addHeader("content-length", Long.toString(Files.size(path)));
        send(path, response.getOutputStream());
    }

    /** HTTP/0.9: one line, and the bare bytes back. */
    private final class Http09 implements ApplicationProtocolConnectionFactory {
        @Override
        public int maxConcurrentPeerInitiatedBidirectionalStreams() {
            return REQUESTS;
        }

        @Override
        public int maxConcurrentPeerInitiatedUnidirectionalStreams() {
            return 0;
        }

        @Override
        public ApplicationProtocolConnection createConnection(String protocol, QuicConnection connection) {
            connection.setConnectionListener(ConnectionLog::tellEnd);
            return new ApplicationProtocolConnection() {
                @Override
                public void acceptPeerInitiatedStream(QuicStream stream) {
                    threads.execute(() -> answer(stream));
                }
            };
        }

        private void answer(QuicStream stream) {
            try {
                String line = readLine(stream.getInputStream());
                Path path = line.startsWith("GET /") ? find(line.substring("GET ".length())) : null;
                if (path == null) {
                    stream.resetStream(0);
                } else {
                    send(path, stream.getOutputStream());
                }
            } catch (IOException error) {
                ConnectionLog.tell("a request was not answered: " + Endpoint.describe(error));
            }
        }

        /** The line without its end; what comes after it is not read. */
        private String readLine(InputStream in) throws IOException {
            ByteArrayOutputStream line = new ByteArrayOutputStream();
            for (int next = in.read(); next >= 0 && next != '\n' && line.size() < LINE; next = in.read()) {
                line.write(next);
            }
            return line.toString(US_ASCII).strip();
        }
    }
}
