package flightlog.interop;

import java.io.IOException;
import java.util.Random;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;

/**
 * Writes a store, or appends to one that exists: {@code count} messages by {@link SeededPuts}, then a clean end, or
 * with {@code halt=true} the process dies right after the last put; {@code lag} of its messages then stand in the log
 * alone. {@code digest=true}: a digest a queue instead of a line a message. After every {@code pauseEvery} messages it
 * sleeps for {@code pauseMs} or down to half of it, so that store times differ.
 */
final class WriteProgram {

    private final Options options;
    private final LineOutput out;
    private final boolean digestOnly;
    private final long pauseEvery;
    private final int pauseMs;
    private final Random pauses;

    WriteProgram(Options options, LineOutput out) {
        this.options = options;
        this.out = out;
        this.digestOnly = options.flag("digest", false);
        this.pauseEvery = options.longNumber("pauseEvery", Long.MAX_VALUE);
        this.pauseMs = options.number("pauseMs", 0);
        this.pauses = new Random(options.longNumber("seed", 1));
    }

    void run() throws Exception {
        boolean halt = options.flag("halt", false);
        long lag = options.longNumber("lag", 0);
        SeededPuts puts = new SeededPuts(options, options.longNumber("count", 0));
        if (lag > 0 && !halt) {
            throw new IllegalArgumentException("only a halted store can lag: give halt=true too");
        }
        if (lag > 0) {
            DispatchGate gate = new DispatchGate(puts.left() - lag);
            StoreSession session = StoreSession.open(options, gate);
            PutLog log = putAll(session, puts);
            gate.awaitReached();
            halt(session, log);
        } else if (halt) {
            StoreSession session = StoreSession.open(options);
            halt(session, putAll(session, puts));
        } else {
            try (StoreSession session = StoreSession.open(options)) {
                PutLog log = putAll(session, puts);
                session.awaitDispatch();
                summarize(session, log, "clean");
            }
        }
    }

    private PutLog putAll(StoreSession session, SeededPuts puts) throws Exception {
        StoreLine.print(out, session);
        PutLog log = new PutLog(session.store, out, "msg", digestOnly);
        long pauseAt = pauseEvery;
        while (puts.hasNext()) {
            log.put(puts.next());
            if (log.messages() >= pauseAt) {
                pauseAt += pauseEvery;
                Thread.sleep(pauseMs / 2 + pauses.nextInt(pauseMs / 2 + 1));
            }
        }
        return log;
    }

    /** No shutdown hook, no flush, and the abort file stays. */
    private void halt(StoreSession session, PutLog log) throws IOException {
        summarize(session, log, "halt");
        out.flush();
        Runtime.getRuntime().halt(0);
    }

    private void summarize(StoreSession session, PutLog log, String end) throws IOException {
        log.printDigests();
        for (ConsumeQueueInterface queue : session.queues()) {
            out.print(QueueLine.of("queue", queue));
        }
        out.print(new JsonLine("summary")
            .put("end", end)
            .put("messages", log.messages())
            .put("failedPuts", log.failedPuts())
            .put("minPhyOffset", session.store.getMinPhyOffset())
            .put("maxPhyOffset", session.store.getMaxPhyOffset())
            .put("dispatchBehind", session.store.dispatchBehindBytes()));
    }
}
