package flightlog.interop;

import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.failover.EscapeBridge;
import org.apache.rocketmq.broker.schedule.ScheduleMessageService;
import org.apache.rocketmq.broker.util.HookUtils;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.common.topic.TopicValidator;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.MessageStore;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;

/**
 * A broker's {@code ScheduleMessageService} on the store at {@code path}: parks {@code park=LEVEL:COUNT,...} messages
 * through the broker's own hook, delivers until the levels of {@code await=LEVEL,...} have nothing left, and stops, which
 * writes {@code config/delayOffset.json}. Prints the offsets at the start and at the end.
 */
final class DelaysProgram {

    private static final long LIMIT_MS = 60_000;
    private static final long POLL_MS = 20;

    private final Options options;
    private final LineOutput out;

    DelaysProgram(Options options, LineOutput out) {
        this.options = options;
        this.out = out;
    }

    void run() throws Exception {
        Iterable<String> parks = options.list("park");
        Iterable<String> awaited = options.list("await");
        try (StoreSession session = StoreSession.open(options)) {
            session.awaitDispatch();
            Broker broker = blank(Broker.class);
            broker.store = session.store;
            broker.config = new BrokerConfig();
            broker.bridge = blank(Bridge.class);
            broker.bridge.store = session.store;
            ScheduleMessageService service = new ScheduleMessageService(broker);
            broker.schedules = service;
            out.print(new JsonLine("loaded").put("ok", service.load()).put("offsets", texts(service.getOffsetTable())));
            for (String words : parks) {
                String[] word = words.split(":");
                for (int i = 0; i < Integer.parseInt(word[1]); i++) {
                    park(broker, Integer.parseInt(word[0]), i);
                }
            }
            session.awaitDispatch();
            service.start();
            for (String level : awaited) {
                await(service, session.store, Integer.parseInt(level));
            }
            service.shutdown();
            session.awaitDispatch();
            out.print(new JsonLine("stopped").put("offsets", texts(service.getOffsetTable())));
        }
    }

    private static void park(Broker broker, int level, int number) {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic("theirs");
        message.setQueueId(number % 2);
        message.setBody(("theirs-" + level + "-" + number).getBytes(StandardCharsets.UTF_8));
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(new InetSocketAddress("10.0.0.7", 4000 + number));
        message.setStoreHost(new InetSocketAddress("10.0.0.8", 10911));
        message.setTags("TagA");
        message.setKeys("theirs-" + number);
        MessageAccessor.putProperty(
            message, MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX, "T" + level + "-" + number);
        message.setDelayTimeLevel(level);
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        PutMessageResult refused = HookUtils.handleScheduleMessage(broker, message);
        if (refused != null || !broker.store.putMessage(message).isOk()) {
            throw new IllegalStateException("message " + number + " of level " + level + " was refused");
        }
    }

    private static void await(ScheduleMessageService service, DefaultMessageStore store, int level) throws Exception {
        ConsumeQueueInterface queue = store.findConsumeQueue(TopicValidator.RMQ_SYS_SCHEDULE_TOPIC, level - 1);
        for (long waitedMs = 0; service.getOffsetTable().getOrDefault(level, 0L) < queue.getMaxOffsetInQueue(); ) {
            if ((waitedMs += POLL_MS) > LIMIT_MS) {
                throw new IllegalStateException("level " + level + " is not delivered: " + service.getOffsetTable());
            }
            Thread.sleep(POLL_MS);
        }
    }

    private static Map<String, String> texts(Map<Integer, Long> offsets) {
        Map<String, String> found = new TreeMap<>();
        offsets.forEach((level, offset) -> found.put(level.toString(), offset.toString()));
        return found;
    }

    /** An object whose constructor did not run: that of a broker starts everything that a broker has. */
    private static <T> T blank(Class<T> type) throws ReflectiveOperationException {
        Class<?> factory = Class.forName("sun.reflect.ReflectionFactory");
        Object made = factory.getMethod("getReflectionFactory").invoke(null);
        try {
            Constructor<?> constructor = (Constructor<?>) factory
                .getMethod("newConstructorForSerialization", Class.class, Constructor.class)
                .invoke(made, type, Object.class.getConstructor());
            return type.cast(constructor.newInstance());
        } catch (InvocationTargetException failure) {
            throw new IllegalStateException(failure.getCause());
        }
    }

    /** What {@code ScheduleMessageService} and its hook ask of a broker. */
    static final class Broker extends BrokerController {

        DefaultMessageStore store;
        BrokerConfig config;
        Bridge bridge;
        ScheduleMessageService schedules;

        private Broker() {
            super(null, null, null, null);
        }

        @Override
        public MessageStore getMessageStore() {
            return store;
        }

        @Override
        public MessageStoreConfig getMessageStoreConfig() {
            return store.getMessageStoreConfig();
        }

        @Override
        public BrokerConfig getBrokerConfig() {
            return config;
        }

        @Override
        public EscapeBridge getEscapeBridge() {
            return bridge;
        }

        @Override
        public ScheduleMessageService getScheduleMessageService() {
            return schedules;
        }
    }

    /** The way of a master's deliveries: straight into its store. */
    static final class Bridge extends EscapeBridge {

        DefaultMessageStore store;

        private Bridge() {
            super(null);
        }

        @Override
        public CompletableFuture<PutMessageResult> asyncPutMessage(MessageExtBrokerInner message) {
            return store.asyncPutMessage(message);
        }
    }
}
