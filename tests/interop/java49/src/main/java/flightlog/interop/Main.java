package flightlog.interop;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.store.AppendMessageResult;
import org.apache.rocketmq.store.ConsumeQueue;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.GetMessageStatus;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * RocketMQ 4.9.8's store: write one, or open one. The lines are those of the programs for 5.3.3; options that those alone
 * know mean nothing here.
 */
public final class Main {

    private static final int PAGE_MESSAGES = 1024;
    private static final int STALL_LIMIT_MS = 30_000;
    private static final int MAX_HITS = 100_000;
    private static final int PHYSICAL_OFFSET_POSITION = 28;

    private final Options options;
    private final LineOutput out;
    /** Topic TAB key of the messages read. */
    private final Set<String> keys = new TreeSet<>();
    private DefaultMessageStore store;

    private Main(Options options, LineOutput out) {
        this.options = options;
        this.out = out;
    }

    public static void main(String[] args) {
        Options options = new Options(Arrays.asList(args).subList(1, args.length));
        int exitCode = 0;
        try (LineOutput out = new LineOutput()) {
            Main main = new Main(options, out);
            if (args[0].equals("write")) {
                main.write();
            } else {
                main.open();
            }
        } catch (Exception | Error failure) {
            failure.printStackTrace();
            exitCode = 1;
        }
        System.exit(exitCode);  // RocketMQ's threads are no daemons
    }

    private void write() throws Exception {
        boolean halt = options.flag("halt", false);
        OldPuts puts = new OldPuts(options, options.longNumber("count", 0));
        start();
        putAll(puts, "msg");
        if (halt) {
            out.flush();
            Runtime.getRuntime().halt(0);
        }
        awaitDispatch();
        store.shutdown();
    }

    private void open() throws Exception {
        boolean queriesAll = options.text("keys", "none").equals("all");
        OldPuts puts = new OldPuts(options, options.longNumber("append", 0));
        File abort = start();
        awaitDispatch();
        long problems = 0;
        for (ConsumeQueue queue : queues()) {
            out.print(bounds("queue", queue));
            problems += read(queue);
        }
        if (queriesAll) {
            queryAll();
        }
        putAll(puts, "put");
        awaitDispatch();
        for (ConsumeQueue queue : queues()) {
            out.print(bounds("queueAfter", queue));
        }
        out.print(new JsonLine("summary").put("problems", problems).put("maxPhyOffset", store.getMaxPhyOffset()));
        store.shutdown();
        out.print(new JsonLine("closed").put("abortFileAfter", abort.exists()));
    }

    /** Loads, recovers and starts the store; returns the place of its abort file. */
    private File start() throws Exception {
        MessageStoreConfig config = StoreConfig.from(options);
        File abort = new File(config.getStorePathRootDir(), "abort");
        boolean abortFileBefore = abort.exists();
        store = new DefaultMessageStore(
            config,
            new BrokerStatsManager("interop", false),
            (topic, queueId, queueOffset, tagsCode, storeTimestamp, bitMap, properties) -> { },
            new BrokerConfig());
        if (!store.load()) {
            throw new IllegalStateException("load() returned false for " + config.getStorePathRootDir());
        }
        store.start();
        out.print(new JsonLine("store")
            .put("tag", "rocketmq-all-4.9.8")
            .put("loaded", true)
            .put("abortFileBefore", abortFileBefore)
            .put("abortBytes", abort.length())
            .put("maxPhyOffset", store.getMaxPhyOffset()));
        return abort;
    }

    private void putAll(OldPuts puts, String lineType) throws IOException {
        while (puts.hasNext()) {
            PutMessageResult result = store.putMessage(puts.next());
            AppendMessageResult appended = result.getAppendMessageResult();
            if (appended == null || !appended.isOk()) {
                throw new IllegalStateException("a put answered " + result);
            }
            SelectMappedBufferResult written =
                store.selectOneMessageByOffset(appended.getWroteOffset(), appended.getWroteBytes());
            LogRecord record = LogRecord.readOrNull(written.getByteBuffer());
            written.release();
            out.print(record.describe(new JsonLine(lineType)
                .put("status", result.getPutMessageStatus().name())
                .put("wroteOffset", appended.getWroteOffset())));
        }
    }

    private void awaitDispatch() throws InterruptedException {
        for (int waited = 0; store.dispatchBehindBytes() > 0; waited++) {
            if (waited == STALL_LIMIT_MS) {
                throw new IllegalStateException("dispatch stands still");
            }
            Thread.sleep(1);
        }
    }

    /** Those that hold messages, or did. */
    private List<ConsumeQueue> queues() {
        List<ConsumeQueue> queues = new ArrayList<>();
        store.getConsumeQueueTable().values().forEach(ofTopic -> queues.addAll(ofTopic.values()));
        queues.removeIf(queue -> queue.getMaxOffsetInQueue() == 0);  // made for each delay level, by the scheduler
        queues.sort(Comparator.comparing(ConsumeQueue::getTopic).thenComparingInt(ConsumeQueue::getQueueId));
        return queues;
    }

    private static JsonLine bounds(String type, ConsumeQueue queue) {
        return new JsonLine(type)
            .put("topic", queue.getTopic())
            .put("queueId", queue.getQueueId())
            .put("min", queue.getMinOffsetInQueue())
            .put("max", queue.getMaxOffsetInQueue());
    }

    /** Prints every message of a queue with its entry; returns how many stretches gave none. */
    private long read(ConsumeQueue queue) throws IOException {
        long problems = 0;
        long at = queue.getMinOffsetInQueue();
        while (at < queue.getMaxOffsetInQueue()) {
            GetMessageResult page =
                store.getMessage("interop", queue.getTopic(), queue.getQueueId(), at, PAGE_MESSAGES, null);
            long next = page.getNextBeginOffset();
            if (page.getStatus() != GetMessageStatus.FOUND || next - at != page.getMessageMapedList().size()) {
                problems++;
                out.print(new JsonLine("problem").put("offset", at).put("status", page.getStatus().name()));
            } else {
                for (SelectMappedBufferResult found : page.getMessageMapedList()) {
                    LogRecord record = LogRecord.readOrNull(found.getByteBuffer());
                    addKeysOf(record);
                    printEntry(queue, at, record);
                    at++;
                }
            }
            page.release();
            if (next < at || next == at && page.getStatus() != GetMessageStatus.FOUND) {
                break;
            }
            at = next;
        }
        return problems;
    }

    private void addKeysOf(LogRecord record) {
        String uniqueKey = record.message.getProperty("UNIQ_KEY");
        String all = record.message.getKeys() == null ? "" : record.message.getKeys();
        for (String key : (all + " " + (uniqueKey == null ? "" : uniqueKey)).split(" ")) {
            if (!key.isEmpty()) {
                keys.add(record.message.getTopic() + "\t" + key);
            }
        }
    }

    /** One line a key of the messages read: the physical offsets that RocketMQ answers with, ascending. */
    private void queryAll() throws IOException {
        for (String pair : keys) {
            String topic = pair.substring(0, pair.indexOf('\t'));
            String key = pair.substring(pair.indexOf('\t') + 1);
            QueryMessageResult answer = store.queryMessage(topic, key, MAX_HITS, 0, Long.MAX_VALUE);
            Set<Long> offsets = new TreeSet<>();
            for (ByteBuffer hit : answer.getMessageBufferList()) {
                offsets.add(hit.getLong(PHYSICAL_OFFSET_POSITION));
            }
            answer.release();
            out.print(new JsonLine("query").put("topic", topic).put("key", key).put("offsets", new ArrayList<>(offsets)));
        }
    }

    private void printEntry(ConsumeQueue queue, long offset, LogRecord record) throws IOException {
        SelectMappedBufferResult entries = queue.getIndexBuffer(offset);
        ByteBuffer entry = entries.getByteBuffer();
        out.print(record.describe(new JsonLine("msg")
            .put("cqTopic", queue.getTopic())
            .put("cqQueueId", queue.getQueueId())
            .put("cqOffset", offset)
            .put("cqPos", entry.getLong())
            .put("cqSize", entry.getInt())
            .put("cqTagsCode", entry.getLong())));
        entries.release();
    }
}
