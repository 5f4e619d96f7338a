package flightlog.interop;

import java.nio.ByteBuffer;
import java.security.MessageDigest;

/**
 * A queue of any length in three values, for stores too large to print.
 *
 * <p>{@code count}: messages. {@code messagesSha1}: SHA-1 over 40 bytes a message in queue order, all big-endian:
 * queue offset (8), physical offset (8), record size (4), SHA-1 of the stored body (20). {@code recordsSha1}: SHA-1
 * over the records' own bytes in queue order, so over every field.
 */
final class QueueDigest {

    private static final int SHA1_SIZE = 20;

    private final ByteBuffer line = ByteBuffer.allocate(8 + 8 + 4 + SHA1_SIZE);
    private final MessageDigest body = Sha1.start();
    private final MessageDigest messages = Sha1.start();
    private final MessageDigest records = Sha1.start();
    private long count;

    void add(LogRecord record) {
        line.clear();
        line.putLong(record.message.getQueueOffset()).putLong(record.message.getCommitLogOffset());
        line.putInt(record.size()).put(body.digest(record.body()));
        messages.update(line.array());
        records.update(record.bytes);
        count++;
    }

    /** Ends the digest and appends it to the line. */
    JsonLine describe(JsonLine into) {
        return into
            .put("count", count)
            .put("messagesSha1", Sha1.hexOf(messages.digest()))
            .put("recordsSha1", Sha1.hexOf(records.digest()));
    }
}
