package flightlog.interop;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;

/**
 * Puts that depend on the options alone: {@code seed}, {@code first} (number of the first message), {@code topics},
 * {@code queues} a topic, {@code bodyMin} and {@code bodyMax} in bytes, {@code orders} (how many orders are mixed in)
 * and {@code features}, any of
 *
 * <ul>
 *   <li>v2: topics of 127, 128, 150 and 255 characters, so V1's longest and V2
 *   <li>v6: IPv6 born and store hosts
 *   <li>unicode: bodies, keys, tags and property names outside ASCII
 *   <li>empty: bodies of length 0
 *   <li>noprops: messages without any property
 *   <li>batch: batches of 2 to 8
 *   <li>inner: inner batches of 2 to 8, to the topic "batches"
 *   <li>types: prepared, committed and rolled back messages
 *   <li>delay: messages parked as a broker parks delayed ones
 *   <li>skewed: most bodies small, a few up to {@code bodyMax}
 *   <li>light: light queues that list the message, too, where the store has them enabled
 *   <li>collide, keys: see {@link SeededProperties}
 * </ul>
 */
final class SeededPuts {

    private static final Set<String> FEATURES = Set.of(
        "v2", "v6", "unicode", "empty", "noprops", "batch", "inner", "types", "delay", "skewed", "collide", "keys",
        "light");
    private static final int[] LONG_TOPIC_LENGTHS = {127, 128, 150, 255};
    private static final int V1_TOPIC_LIMIT = 127;
    private static final int[] TRANSACTION_TYPES = {
        MessageSysFlag.TRANSACTION_PREPARED_TYPE,
        MessageSysFlag.TRANSACTION_COMMIT_TYPE,
        MessageSysFlag.TRANSACTION_ROLLBACK_TYPE};
    private static final String BATCH_TOPIC = "batches";
    private static final String DELAY_TOPIC = "SCHEDULE_TOPIC_XXXX";
    private static final int DELAY_LEVELS = 18;
    private static final long FIRST_BORN_MS = 1_700_000_000_000L;
    private static final int MAX_BATCH = 8;
    private static final int ONE_IN = 8;

    private final Random random;
    private final List<String> topics;
    private final int queues;
    private final int bodyMin;
    private final int bodyMax;
    private final Set<String> features;
    private final SeededProperties properties;
    private final OrderStream orders;
    private final long end;
    private long number;

    /** {@code count} messages, members of batches counted, and three more for each order. */
    SeededPuts(Options options, long count) {
        long seed = options.longNumber("seed", 1);
        number = options.longNumber("first", 0);
        end = number + count;
        // The numbers of a second session continue the first one's, its draws do not repeat them.
        random = new Random(31 * seed + number);
        List<String> given = options.list("topics");
        topics = given.isEmpty() ? List.of("T" + seed + "_0", "T" + seed + "_1", "T" + seed + "_2") : given;
        queues = options.number("queues", 4);
        bodyMin = options.number("bodyMin", 1);
        bodyMax = options.number("bodyMax", 300);
        features = new HashSet<>(options.list("features"));
        if (!FEATURES.containsAll(features)) {
            throw new IllegalArgumentException("features are " + FEATURES + ", found " + features);
        }
        properties = new SeededProperties(random, features, options.number("keysEach", 0));
        orders = new OrderStream((int) number, options.number("orders", 0), queues);
    }

    boolean hasNext() {
        return left() > 0;
    }

    /** Messages still to come. */
    long left() {
        return end - number + orders.left();
    }

    Put next() {
        long ordinaryLeft = end - number;
        if (orders.left() > 0 && random.nextDouble() * (ordinaryLeft + orders.left()) >= ordinaryLeft) {
            MessageExtBrokerInner message = orders.next(random);
            setCommon(message, false);
            return Put.single("order", message);
        }
        if (ordinaryLeft > 1 && draw("batch")) {
            return batch((int) Math.min(2 + random.nextInt(MAX_BATCH - 1), ordinaryLeft));
        }
        if (ordinaryLeft > 1 && draw("inner")) {
            return inner((int) Math.min(2 + random.nextInt(MAX_BATCH - 1), ordinaryLeft));
        }
        return single();
    }

    /** One record that holds them all, as a broker makes it for a topic with batch consume queues. */
    private Put inner(int size) {
        MessageExtBrokerInner record = new MessageExtBrokerInner();
        record.setTopic(BATCH_TOPIC);
        record.setQueueId(random.nextInt(queues));
        setCommon(record, features.contains("v6"));
        List<Message> members = new ArrayList<>();
        for (int i = 0; i < size; i++, number++) {
            Message member = new Message(BATCH_TOPIC, body());
            MessageAccessor.setProperties(member, properties.next(number));
            member.setFlag(i);
            members.add(member);
        }
        record.setBody(MessageDecoder.encodeMessages(members));
        record.setSysFlag(record.getSysFlag() | MessageSysFlag.INNER_BATCH_FLAG | MessageSysFlag.NEED_UNWRAP_FLAG);
        Map<String, String> own = new HashMap<>();
        own.put("INNER_NUM", String.valueOf(size));
        own.put("UNIQ_KEY", Words.uniqueKey(random));
        MessageAccessor.setProperties(record, own);
        return Put.single("inner", record);
    }

    private Put single() {
        String kind = "plain";
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic(topics.get(random.nextInt(topics.size())));
        if (draw("v2")) {
            int length = LONG_TOPIC_LENGTHS[random.nextInt(LONG_TOPIC_LENGTHS.length)];
            message.setTopic(Words.topic("long-topic-", length));
            kind = length > V1_TOPIC_LIMIT ? "v2" : "plain";
        }
        message.setQueueId(random.nextInt(queues));
        setCommon(message, features.contains("v6"));
        message.setFlag(random.nextInt(4) == 0 ? random.nextInt() : 0);
        message.setReconsumeTimes(random.nextInt(16) == 0 ? random.nextInt(16) : 0);
        message.setBody(body());
        Map<String, String> drawn = properties.next(number);
        if (draw("empty")) {
            message.setBody(new byte[0]);
            kind = "empty";
        } else if (draw("noprops")) {
            drawn = new HashMap<>();
            kind = "noprops";
        }
        MessageAccessor.setProperties(message, drawn);
        if (draw("light")) {
            String names = random.nextBoolean() ? "%LMQ%a" : "%LMQ%b,%LMQ%a";
            MessageAccessor.putProperty(message, "INNER_MULTI_DISPATCH", names);
            kind = "light";
        }
        if (draw("types")) {
            message.setSysFlag(TRANSACTION_TYPES[random.nextInt(TRANSACTION_TYPES.length)]);
            kind = "type";
        } else if (draw("delay")) {
            park(message);
            kind = "delay";
        }
        number++;
        return Put.single(kind, message);
    }

    private Put batch(int size) {
        MessageExtBatch envelope = new MessageExtBatch();
        envelope.setTopic(topics.get(random.nextInt(topics.size())));
        envelope.setQueueId(random.nextInt(queues));
        setCommon(envelope, features.contains("v6"));
        List<Message> members = new ArrayList<>();
        for (int i = 0; i < size; i++, number++) {
            Message member = new Message(envelope.getTopic(), body());
            MessageAccessor.setProperties(member, properties.next(number));
            member.setFlag(i);
            members.add(member);
        }
        return Put.batch(envelope, members);
    }

    private void setCommon(MessageExtBrokerInner message, boolean ipv6) {
        message.setBornTimestamp(FIRST_BORN_MS + 7 * (number + orders.left()));
        Hosts.set(message, random, ipv6);
    }

    /** What a broker's hook does to a message with a delay level before it puts it. */
    private void park(MessageExtBrokerInner message) {
        int level = 1 + random.nextInt(DELAY_LEVELS);
        MessageAccessor.putProperty(message, "DELAY", String.valueOf(level));
        MessageAccessor.putProperty(message, "REAL_TOPIC", message.getTopic());
        MessageAccessor.putProperty(message, "REAL_QID", String.valueOf(message.getQueueId()));
        message.setTopic(DELAY_TOPIC);
        message.setQueueId(level - 1);
    }

    private byte[] body() {
        int range = bodyMax - bodyMin;
        int size = features.contains("skewed")
            ? (int) Math.round(Math.pow(range + 1, random.nextDouble())) - 1
            : random.nextInt(range + 1);
        return Words.body(random, bodyMin + size, draw("unicode"));
    }

    private boolean draw(String feature) {
        return features.contains(feature) && random.nextInt(ONE_IN) == 0;
    }
}
