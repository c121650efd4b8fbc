package tech.kwik.qlog;

import lab.Trace;

/** The name by which kwik looks for a writer of qlogs, once for each of a server's connections. */
public final class QLogFrontEnd extends Trace {
    /** The trace of the connection with this original destination connection ID. */
    public QLogFrontEnd(byte[] connectionId) {
        super("server", connectionId);
    }
}
