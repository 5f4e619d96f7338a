package flightlog.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/**
 * Holds a store open and puts when it is told to. Each line of standard input is a number of messages by
 * {@link SeededPuts}; a line is printed for each message as soon as it is put, and a {@code caughtUp} line once all of
 * them are in their queues. {@code digest=true}: no line a message, but a digest a queue at the end. {@code pauseMs}
 * is slept after each put, so that others can look on meanwhile. At the end of the input the store is shut down
 * cleanly. {@code count} bounds the messages of the whole session.
 */
final class LiveProgram {

    private final Options options;
    private final LineOutput out;

    LiveProgram(Options options, LineOutput out) {
        this.options = options;
        this.out = out;
    }

    void run() throws Exception {
        long pauseMs = options.longNumber("pauseMs", 0);
        boolean digestOnly = options.flag("digest", false);
        SeededPuts puts = new SeededPuts(options, options.longNumber("count", 0));
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        try (StoreSession session = StoreSession.open(options)) {
            StoreLine.print(out, session);
            out.flush();
            PutLog log = new PutLog(session.store, out, "msg", digestOnly);
            for (String order = orders.readLine(); order != null; order = orders.readLine()) {
                long total = log.messages() + Long.parseLong(order);
                while (log.messages() < total && puts.hasNext()) {
                    log.put(puts.next());
                    out.flush();
                    Thread.sleep(pauseMs);
                }
                session.awaitDispatch();
                caughtUp(session, log);
            }
            log.printDigests();
        }
    }

    private void caughtUp(StoreSession session, PutLog log) throws IOException {
        out.print(new JsonLine("caughtUp")
            .put("messages", log.messages())
            .put("failedPuts", log.failedPuts())
            .put("maxPhyOffset", session.store.getMaxPhyOffset()));
        out.flush();
    }
}
