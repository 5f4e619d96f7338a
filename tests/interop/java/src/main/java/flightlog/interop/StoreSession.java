package flightlog.interop;

import java.io.File;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.attribute.CQType;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.MessageArrivingListener;
import org.apache.rocketmq.store.RocksDBMessageStore;
import org.apache.rocketmq.store.config.FlushDiskType;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** One {@link DefaultMessageStore} from load to shutdown, as a broker drives it, without the broker. */
final class StoreSession implements AutoCloseable {

    /** RocketMQ's {@code load()} answered false; why stands in its log on standard error. */
    static final class NotLoadedException extends Exception {
        private static final long serialVersionUID = 1L;

        NotLoadedException(String path) {
            super("RocketMQ's load() returned false for " + path);
        }
    }

    private static final long POLL_MS = 1;

    final DefaultMessageStore store;
    /** True if the session before this one did not end cleanly. */
    final boolean abortFileBefore;
    private final File root;
    private final boolean syncFlush;
    private final long stallLimitMs;

    private StoreSession(
        DefaultMessageStore store, MessageStoreConfig config, boolean abortFileBefore, long stallLimitMs) {
        this.store = store;
        this.abortFileBefore = abortFileBefore;
        this.root = new File(config.getStorePathRootDir());
        this.syncFlush = config.getFlushDiskType() == FlushDiskType.SYNC_FLUSH;
        this.stallLimitMs = stallLimitMs;
    }

    /** As {@link #open(Options, MessageArrivingListener)}, with nobody to be told of messages. */
    static StoreSession open(Options options) throws Exception {
        return open(options, (topic, queueId, queueOffset, tagsCode, storeTimestamp, bitMap, properties) -> { });
    }

    /**
     * Loads, recovers and starts the store; an absent one is created. Option {@code stallLimitMs} bounds waiting;
     * {@code batchTopics} names the topics whose queues are batch consume queues.
     */
    static StoreSession open(Options options, MessageArrivingListener listener) throws Exception {
        MessageStoreConfig config = StoreConfig.from(options);
        long stallLimitMs = options.longNumber("stallLimitMs", 30_000);
        ConcurrentHashMap<String, TopicConfig> topics = new ConcurrentHashMap<>();
        for (String topic : options.list("batchTopics")) {
            TopicConfig known = new TopicConfig(topic);
            known.setAttributes(new HashMap<>(Map.of("queue.type", CQType.BatchCQ.name())));
            topics.put(topic, known);
        }
        options.refuseUnknown();
        boolean abortFileBefore = abortFile(new File(config.getStorePathRootDir())).exists();
        BrokerConfig broker = new BrokerConfig();
        broker.setAutoDeleteUnusedStats(false); // there are none
        BrokerStatsManager statistics = new BrokerStatsManager("interop", false);
        DefaultMessageStore store = config.isEnableRocksDBStore()
            ? new RocksDBMessageStore(config, statistics, listener, broker, topics)
            : new DefaultMessageStore(config, statistics, listener, broker, topics);
        if (!store.load()) {
            throw new NotLoadedException(config.getStorePathRootDir());
        }
        store.start();
        return new StoreSession(store, config, abortFileBefore, stallLimitMs);
    }

    /** True while the session runs, and afterwards if it did not end cleanly. */
    boolean hasAbortFile() {
        return abortFile(root).exists();
    }

    private static File abortFile(File root) {
        return new File(root, "abort");
    }

    /** Returns once every appended record has its queue and index entries; fails when dispatch stands still. */
    void awaitDispatch() throws InterruptedException {
        if (syncFlush) {
            flush();  // with sync flush RocketMQ dispatches flushed records only
        }
        long behind = store.dispatchBehindBytes();
        long stalledMs = 0;
        while (behind > 0) {
            Thread.sleep(POLL_MS);
            long now = store.dispatchBehindBytes();
            stalledMs = now == behind ? stalledMs + POLL_MS : 0;
            if (stalledMs > stallLimitMs) {
                throw new IllegalStateException("dispatch stands still " + now + " bytes behind the log's end");
            }
            behind = now;
        }
    }

    /** Forces every appended byte of the commit log to disk; one call of RocketMQ's flush serves one segment only. */
    void flush() {
        long reached = -1;
        long now = store.flush();
        while (now < store.getMaxPhyOffset() && now > reached) {
            reached = now;
            now = store.flush();
        }
        if (now < store.getMaxPhyOffset()) {
            throw new IllegalStateException("flush stands still at " + now + " of " + store.getMaxPhyOffset());
        }
    }

    /** One round of the cleaners as a broker runs them every ten seconds, whatever hour of the day it is. */
    void cleanUp() throws ReflectiveOperationException {
        store.executeDeleteFilesManually();
        for (String round : List.of("cleanFilesPeriodically", "cleanQueueFilesPeriodically")) {
            Method method = DefaultMessageStore.class.getDeclaredMethod(round);
            method.setAccessible(true);
            method.invoke(store);
        }
    }

    /** Every consume queue, by topic and then queue id. */
    List<ConsumeQueueInterface> queues() {
        List<ConsumeQueueInterface> queues = new ArrayList<>();
        store.getConsumeQueueTable().values().forEach(ofTopic -> queues.addAll(ofTopic.values()));
        queues.sort(Comparator.comparing(ConsumeQueueInterface::getTopic)
            .thenComparingInt(ConsumeQueueInterface::getQueueId));
        return queues;
    }

    /** Shuts down cleanly, which takes RocketMQ at least three seconds. */
    @Override
    public void close() {
        store.shutdown();
    }
}
