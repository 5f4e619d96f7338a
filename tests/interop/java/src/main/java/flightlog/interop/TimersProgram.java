package flightlog.interop;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Random;
import org.apache.rocketmq.broker.BrokerPathConfigHelper;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;
import org.apache.rocketmq.store.timer.TimerCheckpoint;
import org.apache.rocketmq.store.timer.TimerMessageStore;
import org.apache.rocketmq.store.timer.TimerMetrics;

/**
 * Opens a store with RocketMQ's timers, as a broker starts them, and does what the lines of {@code orders} say:
 *
 * <pre>
 * put     TOPIC QUEUE UNIQ_KEY DELIVER_MS BODY    a timer, parked as a broker parks it
 * cancel  TOPIC UNIQ_KEY DELIVER_MS
 * taken                                           wait until all of them are on the wheel
 * until   MS                                      wait until every second before this time is delivered
 * sleep   MS
 * </pre>
 *
 * {@code halt=true}: the end is that of a process that dies.
 */
final class TimersProgram {

    private static final int PRECISION_MS = 1000;
    private static final long POLL_MS = 10;

    private final Options options;
    private final LineOutput out;
    private final Random random = new Random(1);

    TimersProgram(Options options, LineOutput out) {
        this.options = options;
        this.out = out;
    }

    void run() throws Exception {
        Path orders = Path.of(options.required("orders"));
        boolean halt = options.flag("halt", false);
        StoreSession session = StoreSession.open(options);
        TimerMessageStore timers = open(session);
        for (String order : Files.readAllLines(orders, StandardCharsets.UTF_8)) {
            follow(session, timers, order.split("\t"));
        }
        session.awaitDispatch();
        out.print(new JsonLine("timers")
            .put("readTimeMs", timers.getCurrReadTimeMs())
            .put("queueOffset", timers.getCommitQueueOffset())
            .put("pending", timers.getAllCongestNum()));
        if (halt) {
            out.flush();
            Runtime.getRuntime().halt(0);
        }
        timers.shutdown();
        session.close();
        out.print(new JsonLine("closed").put("abortFileAfter", session.hasAbortFile()));
    }

    private static TimerMessageStore open(StoreSession session) throws Exception {
        MessageStoreConfig config = session.store.getMessageStoreConfig();
        String root = config.getStorePathRootDir();
        TimerCheckpoint checkpoint = new TimerCheckpoint(BrokerPathConfigHelper.getTimerCheckPath(root));
        TimerMetrics metrics = new TimerMetrics(BrokerPathConfigHelper.getTimerMetricsPath(root));
        TimerMessageStore timers = new TimerMessageStore(session.store, config, checkpoint, metrics, null);
        session.store.setTimerMessageStore(timers);
        if (!timers.load()) {
            throw new IllegalStateException("RocketMQ's timers did not load");
        }
        timers.start(true);
        return timers;
    }

    private void follow(StoreSession session, TimerMessageStore timers, String[] words) throws Exception {
        switch (words[0]) {
            case "put":
                park(session, words[1], Integer.parseInt(words[2]), Long.parseLong(words[4]),
                    MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX, words[3], words[5]);
                break;
            case "cancel":
                park(session, words[1], 0, Long.parseLong(words[3]), MessageConst.PROPERTY_TIMER_DEL_UNIQKEY,
                    TimerMessageStore.buildDeleteKey(words[1], words[2]), "");
                break;
            case "taken":
                awaitTaken(session, timers);
                break;
            case "until":
                while (timers.getCommitReadTimeMs() < Long.parseLong(words[1])) {
                    Thread.sleep(POLL_MS);
                }
                break;
            case "sleep":
                Thread.sleep(Long.parseLong(words[1]));
                break;
            default:
                throw new IllegalArgumentException("no order is called " + words[0]);
        }
    }

    private static void awaitTaken(StoreSession session, TimerMessageStore timers) throws Exception {
        session.awaitDispatch();
        ConsumeQueueInterface queue = session.store.getConsumeQueue(TimerMessageStore.TIMER_TOPIC, 0);
        while (queue != null && timers.getCommitQueueOffset() < queue.getMaxOffsetInQueue()) {
            Thread.sleep(POLL_MS);
        }
    }

    /** What a broker's hook makes of a message with a time: a whole second stands in the one before. */
    private void park(
        StoreSession session, String topic, int queueId, long deliverMs, String name, String value, String body)
        throws Exception {
        long outMs = deliverMs % PRECISION_MS == 0 ? deliverMs - PRECISION_MS : deliverMs / PRECISION_MS * PRECISION_MS;
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic(TimerMessageStore.TIMER_TOPIC);
        message.setQueueId(0);
        message.setBody(body.getBytes(StandardCharsets.UTF_8));
        message.setBornTimestamp(System.currentTimeMillis());
        Hosts.set(message, random, false);
        MessageAccessor.putProperty(message, name, value);
        MessageAccessor.putProperty(message, MessageConst.PROPERTY_TIMER_DELIVER_MS, Long.toString(deliverMs));
        MessageAccessor.putProperty(message, MessageConst.PROPERTY_TIMER_OUT_MS, Long.toString(outMs));
        MessageAccessor.putProperty(message, MessageConst.PROPERTY_REAL_TOPIC, topic);
        MessageAccessor.putProperty(message, MessageConst.PROPERTY_REAL_QUEUE_ID, Integer.toString(queueId));
        String status = Put.single("timer", message).into(session.store).getPutMessageStatus().name();
        out.print(new JsonLine("parked").put("status", status).put("outMs", outMs));
    }
}
