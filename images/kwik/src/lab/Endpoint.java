package lab;

import java.util.concurrent.atomic.AtomicBoolean;

/** The program: {@code lab.Endpoint (client|server) [--option=value ...] [URL ...]}. */
public final class Endpoint {
    private Endpoint() {}

    /** Runs one role. The exit code is 0 only if everything that it was told to do was done. */
    public static void main(String[] arguments) {
        AtomicBoolean ended = new AtomicBoolean();
        Server server = new Server();
        boolean serves = arguments.length > 0 && arguments[0].equals("server");
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            // Here after SIGTERM or SIGINT alone: the end of main halts the process without hooks.
            if (ended.compareAndSet(false, true)) {
                if (serves) {
                    server.stop();
                } else {
                    ConnectionLog.tell("told to stop");
                }
                finish(serves ? 0 : 1);
            }
        }));
        int code = 0;
        try {
            Options options = Options.parse(arguments);
            if (options.role().equals("client")) {
                new Client(options).run();
            } else {
                server.run(options);
            }
        } catch (Exception error) {
            ConnectionLog.tell(describe(error));
            code = 1;
        }
        if (ended.compareAndSet(false, true)) {
            finish(code);
        }
    }

    private static void finish(int code) {
        Trace.flushAll();
        // Without waiting for threads of the libraries, which are of no more use.
        Runtime.getRuntime().halt(code);
    }

    /** What a failure says, or its kind where it says nothing. */
    static String describe(Throwable error) {
        return error.getMessage() == null ? error.getClass().getSimpleName() : error.getMessage();
    }
}
