package flightlog.interop;

import java.io.IOException;
import java.nio.file.Path;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;

/**
 * Opens a store as a broker does (load, recover, start), prints every queue and message that RocketMQ finds there,
 * after {@code cleanUps=N} rounds of its cleaners if there are any, answers key queries ({@code keys=none|all|FILE}), appends {@code append} messages by {@link SeededPuts}, and shuts
 * down cleanly. {@code digest=true}: a digest a queue instead of a line a message, so memory stays flat.
 *
 * <p>This writes to the store: recovery truncates it, and the clean end leaves RocketMQ's own checkpoint there.
 */
final class OpenProgram {

    private final Options options;
    private final LineOutput out;
    private final boolean digestOnly;
    private final String keys;
    private final KeyQueries queries = new KeyQueries();
    private long messages;
    private long problems;

    OpenProgram(Options options, LineOutput out) {
        this.options = options;
        this.out = out;
        this.digestOnly = options.flag("digest", false);
        this.keys = options.text("keys", "none");
    }

    void run() throws Exception {
        long append = options.longNumber("append", 0);
        int cleanUps = options.number("cleanUps", 0);
        SeededPuts puts = new SeededPuts(options, append);
        StoreSession session = StoreSession.open(options);
        try (session) {
            session.awaitDispatch();
            for (int round = 0; round < cleanUps; round++) {
                session.cleanUp();
            }
            StoreLine.print(out, session);
            for (ConsumeQueueInterface queue : session.queues()) {
                read(session, queue);
            }
            if (!keys.equals("none") && !keys.equals("all")) {
                queries.addFile(Path.of(keys));
            }
            long queryCount = queries.run(session.store, out);

            PutLog log = new PutLog(session.store, out, "put", false);
            log.putAll(puts);
            session.awaitDispatch();
            session.flush();
            for (ConsumeQueueInterface queue : session.queues()) {
                out.print(QueueLine.of("queueAfter", queue));
            }
            out.print(new JsonLine("summary")
                .put("messages", messages)
                .put("problems", problems)
                .put("queries", queryCount)
                .put("appended", log.messages())
                .put("failedPuts", log.failedPuts())
                .put("minPhyOffset", session.store.getMinPhyOffset())
                .put("maxPhyOffset", session.store.getMaxPhyOffset()));
        }
        out.print(new JsonLine("closed").put("abortFileAfter", session.hasAbortFile()));
    }

    private void read(StoreSession session, ConsumeQueueInterface queue) throws IOException {
        out.print(QueueLine.of("queue", queue));
        QueueDigest digest = new QueueDigest();
        problems += new QueueReader(session.store, queue, out).read((entry, record) -> {
            messages++;
            if (keys.equals("all")) {
                queries.addKeysOf(record);
            }
            if (digestOnly) {
                digest.add(record);
                return;
            }
            out.print(record.describe(new JsonLine("msg")
                .put("cqTopic", queue.getTopic())
                .put("cqQueueId", queue.getQueueId())
                .put("cqOffset", entry.getQueueOffset())
                .put("cqTagsCode", entry.getTagsCode())
                .put("cqPos", entry.getPos())
                .put("cqSize", entry.getSize())
                .put("cqBatchNum", entry.getBatchNum())));
        });
        if (digestOnly) {
            out.print(digest.describe(new JsonLine("digest")
                .put("topic", queue.getTopic())
                .put("queueId", queue.getQueueId())));
        }
    }
}
