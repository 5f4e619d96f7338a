package flightlog.interop;

import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.store.MessageExtBrokerInner;

/** Messages that depend on the options alone, in the classes of RocketMQ 4.9. */
final class OldPuts {

    private static final int[] TRANSACTION_TYPES = {
        MessageSysFlag.TRANSACTION_PREPARED_TYPE,
        MessageSysFlag.TRANSACTION_COMMIT_TYPE,
        MessageSysFlag.TRANSACTION_ROLLBACK_TYPE};
    private static final long FIRST_BORN_MS = 1_600_000_000_000L;
    private static final int ONE_IN = 8;

    private final Random random;
    private final Set<String> features;
    private final SeededProperties properties;
    private final List<String> topics;
    private final int queues;
    private final int bodyMax;
    private final long end;
    private long number;

    OldPuts(Options options, long count) {
        number = options.longNumber("first", 0);
        end = number + count;
        random = new Random(31 * options.longNumber("seed", 1) + number);
        features = new HashSet<>(options.list("features"));
        properties = new SeededProperties(random, features, 0);
        List<String> given = options.list("topics");
        topics = given.isEmpty() ? List.of("old_0", "old_1") : given;
        queues = options.number("queues", 4);
        bodyMax = options.number("bodyMax", 300);
    }

    boolean hasNext() {
        return number < end;
    }

    MessageExtBrokerInner next() {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic(topics.get(random.nextInt(topics.size())));
        message.setQueueId(random.nextInt(queues));
        message.setBornTimestamp(FIRST_BORN_MS + 7 * number);
        Hosts.set(message, random, features.contains("v6"));
        message.setFlag(random.nextInt(4) == 0 ? random.nextInt() : 0);
        message.setBody(draw("empty") ? new byte[0] : Words.body(random, random.nextInt(bodyMax + 1), draw("unicode")));
        MessageAccessor.setProperties(
            message, draw("noprops") ? Collections.emptyMap() : properties.next(number));
        if (draw("types")) {
            message.setSysFlag(TRANSACTION_TYPES[random.nextInt(TRANSACTION_TYPES.length)]);
        }
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        number++;
        return message;
    }

    private boolean draw(String feature) {
        return features.contains(feature) && random.nextInt(ONE_IN) == 0;
    }
}
