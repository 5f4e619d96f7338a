package flightlog.interop;

import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;

/** One record of the commit log: its bytes, and what RocketMQ's own decoder makes of them. */
final class LogRecord {

    private static final int MAGIC_POSITION = 4;
    private static final int SYS_FLAG_POSITION = 36;
    private static final byte[] NO_BODY = new byte[0];

    final byte[] bytes;
    final MessageExt message;

    private LogRecord(byte[] bytes, MessageExt message) {
        this.bytes = bytes;
        this.message = message;
    }

    /**
     * Copies the record that starts at the buffer's position and is as long as its first four bytes say; null if no
     * such record fits there or RocketMQ's decoder refuses it. The position stays.
     */
    static LogRecord readOrNull(ByteBuffer buffer) {
        int size = buffer.remaining() < Integer.BYTES ? 0 : buffer.getInt(buffer.position());
        if (size <= 0 || size > buffer.remaining()) {
            return null;
        }
        byte[] bytes = new byte[size];
        buffer.duplicate().get(bytes);
        MessageExt message = MessageDecoder.decode(ByteBuffer.wrap(bytes), true, false);  // the body stays as stored
        return message == null ? null : new LogRecord(bytes, message);
    }

    int size() {
        return bytes.length;
    }

    /** As stored, so still compressed where the flags say so. */
    byte[] body() {
        return message.getBody() == null ? NO_BODY : message.getBody();
    }

    /** Appends every field to the line. */
    JsonLine describe(JsonLine line) {
        ByteBuffer raw = ByteBuffer.wrap(bytes);
        Map<String, String> properties = new TreeMap<>();
        if (message.getProperties() != null) {
            properties.putAll(message.getProperties());
        }
        return line
            .put("commitLogOffset", message.getCommitLogOffset())
            .put("size", size())
            .put("magic", "0x" + Integer.toHexString(raw.getInt(MAGIC_POSITION)))
            .put("topic", message.getTopic())
            .put("queueId", message.getQueueId())
            .put("queueOffset", message.getQueueOffset())
            .put("flag", message.getFlag())
            // The decoder sets no flags on a message without a body, so they are taken from the bytes.
            .put("sysFlag", raw.getInt(SYS_FLAG_POSITION))
            .put("bornTimestamp", message.getBornTimestamp())
            .put("bornHost", host(message.getBornHost()))
            .put("storeTimestamp", message.getStoreTimestamp())
            .put("storeHost", host(message.getStoreHost()))
            .put("reconsumeTimes", message.getReconsumeTimes())
            .put("preparedTransactionOffset", message.getPreparedTransactionOffset())
            .put("bodyLen", body().length)
            .put("bodyCRC", message.getBodyCRC())
            .put("bodySha1", Sha1.hex(body()))
            .put("keys", message.getKeys())
            .put("tags", message.getTags())
            .put("uniqKey", properties.get("UNIQ_KEY"))
            .put("msgId", message.getMsgId())
            .put("rawSha1", Sha1.hex(bytes))
            .put("properties", properties);
    }

    private static String host(SocketAddress address) {
        InetSocketAddress host = (InetSocketAddress) address;
        String ip = host.getAddress().getHostAddress();
        return (ip.indexOf(':') < 0 ? ip : "[" + ip + "]") + ":" + host.getPort();
    }
}
