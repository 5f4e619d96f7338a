package flightlog.interop;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.common.BoundaryType;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.filter.FilterAPI;
import org.apache.rocketmq.store.DefaultMessageFilter;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.MessageFilter;
import org.apache.rocketmq.store.SelectMappedBufferResult;

/**
 * Questions to an open store, one line each, words separated by TABs; every one gets one line of JSON.
 *
 * <ul>
 *   <li>{@code get TOPIC QUEUE_ID QUEUE_OFFSET MAX_MESSAGES MAX_BYTES TAGS}: MAX_BYTES 0 leaves RocketMQ's own limit;
 *       TAGS is a subscription such as {@code TagA || TagB}, empty for none
 *   <li>{@code time TOPIC QUEUE_ID TIMESTAMP LOWER|UPPER}: the queue offset
 *   <li>{@code query TOPIC KEY MAX_MESSAGES BEGIN END}
 *   <li>{@code estimate TOPIC QUEUE_ID FROM TO TAGS}
 *   <li>{@code look PHYSICAL_OFFSET}
 *   <li>{@code clean}: a round of RocketMQ's cleaners, as at the hour that {@code deleteWhen} names
 *   <li>{@code set NAME VALUE}: changes a setting of RocketMQ's MessageStoreConfig for the questions behind it
 * </ul>
 *
 * An exception that RocketMQ throws is an answer, too: a {@code failure} line.
 */
final class Questions {

    private static final String GROUP = "interop";

    private final StoreSession session;
    private final DefaultMessageStore store;
    private final LineOutput out;

    Questions(StoreSession session, LineOutput out) {
        this.session = session;
        this.store = session.store;
        this.out = out;
    }

    long answerAll(Path questions) throws Exception {
        long answers = 0;
        for (String line : Files.readString(questions, StandardCharsets.UTF_8).split("\n")) {
            if (!line.isEmpty()) {
                out.print(answer(line.split("\t", -1)));
                answers++;
            }
        }
        return answers;
    }

    private JsonLine answer(String[] words) throws Exception {
        try {
            switch (words[0]) {
                case "get":
                    return get(words);
                case "time":
                    return new JsonLine("time").put("offset", store.getOffsetInQueueByTime(words[1],
                        Integer.parseInt(words[2]), Long.parseLong(words[3]), BoundaryType.valueOf(words[4])));
                case "query":
                    return new JsonLine("query").put("positions", KeyQueries.query(store, words[1], words[2],
                        Integer.parseInt(words[3]), Long.parseLong(words[4]), Long.parseLong(words[5])));
                case "estimate":
                    return new JsonLine("estimate").put("count", store.estimateMessageCount(words[1],
                        Integer.parseInt(words[2]), Long.parseLong(words[3]), Long.parseLong(words[4]),
                        filter(words[1], words[5])));
                case "look":
                    return look(Long.parseLong(words[1]));
                case "clean":
                    session.cleanUp();
                    return new JsonLine("clean");
                case "set":
                    StoreConfig.set(store.getMessageStoreConfig(), words[1], words[2]);
                    return new JsonLine("set");
                default:
                    throw new IOException("no such question: " + String.join(" ", words));
            }
        } catch (RuntimeException failure) {
            return new JsonLine("failure").put("what", failure.toString());
        }
    }

    private JsonLine get(String[] words) throws Exception {
        String topic = words[1];
        int queueId = Integer.parseInt(words[2]);
        long offset = Long.parseLong(words[3]);
        int maxMessages = Integer.parseInt(words[4]);
        int maxBytes = Integer.parseInt(words[5]);
        MessageFilter filter = filter(topic, words[6]);
        GetMessageResult found = maxBytes == 0
            ? store.getMessage(GROUP, topic, queueId, offset, maxMessages, filter)
            : store.getMessage(GROUP, topic, queueId, offset, maxMessages, maxBytes, filter);
        try {
            List<Long> positions = new ArrayList<>();
            for (SelectMappedBufferResult message : found.getMessageMapedList()) {
                positions.add(message.getStartOffset());
            }
            return new JsonLine("get")
                .put("status", found.getStatus().name())
                .put("next", found.getNextBeginOffset())
                .put("min", found.getMinOffset())
                .put("max", found.getMaxOffset())
                .put("offsets", found.getMessageQueueOffset())
                .put("positions", positions);
        } finally {
            found.release();
        }
    }

    private JsonLine look(long physicalOffset) {
        MessageExt message = store.lookMessageByOffset(physicalOffset);
        JsonLine line = new JsonLine("look").put("found", message != null);
        return message == null ? line : line.put("msgId", message.getMsgId()).put("size", message.getStoreSize());
    }

    /** As a broker makes it of a subscription by tags. */
    private static MessageFilter filter(String topic, String tags) throws Exception {
        return tags.isEmpty() ? null : new DefaultMessageFilter(FilterAPI.buildSubscriptionData(topic, tags));
    }
}
