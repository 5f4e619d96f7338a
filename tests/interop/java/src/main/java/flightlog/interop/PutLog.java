package flightlog.interop;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.store.AppendMessageResult;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;

/**
 * Puts messages and tells what became of each: one line a message, or one digest a queue.
 *
 * <p>The record is read back from the log right after its put, so nothing is kept in memory but the digests.
 */
final class PutLog {

    private final DefaultMessageStore store;
    private final LineOutput out;
    private final String lineType;
    /** By "topic queueId"; null when every message gets a line. */
    private final Map<String, QueueDigest> digests;
    private long messages;
    private long failedPuts;

    PutLog(DefaultMessageStore store, LineOutput out, String lineType, boolean digestOnly) {
        this.store = store;
        this.out = out;
        this.lineType = lineType;
        this.digests = digestOnly ? new TreeMap<>() : null;
    }

    long messages() {
        return messages;
    }

    long failedPuts() {
        return failedPuts;
    }

    void putAll(SeededPuts puts) throws IOException {
        while (puts.hasNext()) {
            put(puts.next());
        }
    }

    /** One line a queue of what was put, in digest form; nothing if every message had its line. */
    void printDigests() throws IOException {
        if (digests == null) {
            return;
        }
        for (Map.Entry<String, QueueDigest> entry : digests.entrySet()) {
            int blank = entry.getKey().lastIndexOf(' ');
            JsonLine line = new JsonLine("digest")
                .put("topic", entry.getKey().substring(0, blank))
                .put("queueId", Integer.parseInt(entry.getKey().substring(blank + 1)));
            out.print(entry.getValue().describe(line));
        }
    }

    /** One message or one batch. */
    void put(Put put) throws IOException {
        PutMessageResult result = put.into(store);
        AppendMessageResult appended = result.getAppendMessageResult();
        if (appended == null || !appended.isOk()) {
            failedPuts++;
            out.print(new JsonLine(lineType).put("i", messages).put("kind", put.kind)
                .put("status", result.getPutMessageStatus().name()));
            return;
        }
        long offset = appended.getWroteOffset();
        long end = offset + appended.getWroteBytes();
        SelectMappedBufferResult written = store.selectOneMessageByOffset(offset, appended.getWroteBytes());
        try {
            ByteBuffer bytes = written.getByteBuffer();
            for (int index = 0; offset < end; index++) {
                LogRecord record = LogRecord.readOrNull(bytes);
                if (record == null) {
                    throw new IllegalStateException("what was put at " + offset + " does not read back");
                }
                tell(put, result, index, record);
                bytes.position(bytes.position() + record.size());
                offset += record.size();
            }
        } finally {
            written.release();
        }
    }

    private void tell(Put put, PutMessageResult result, int index, LogRecord record) throws IOException {
        if (digests != null) {
            String queue = record.message.getTopic() + " " + record.message.getQueueId();
            digests.computeIfAbsent(queue, name -> new QueueDigest()).add(record);
        } else {
            AppendMessageResult appended = result.getAppendMessageResult();
            JsonLine line = new JsonLine(lineType)
                .put("i", messages)
                .put("kind", put.kind)
                .put("status", result.getPutMessageStatus().name());
            if (put.propertiesString == null) {
                line.put("batchIndex", index).put("batchSize", put.messageCount);
            } else {
                line.put("propertiesString", put.propertiesString);
            }
            line.put("wroteOffset", record.message.getCommitLogOffset())
                .put("wroteBytes", record.size())
                .put("putMsgId", appended.getMsgId().split(",")[index])
                .put("logicsOffset", appended.getLogicsOffset() + index)
                .put("msgNum", 1);
            out.print(record.describe(line));
        }
        messages++;
    }
}
