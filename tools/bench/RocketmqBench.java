import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.DataOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.ConsumeQueue;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.config.FlushDiskType;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * RocketMQ's store at its defaults, asked line by line. Every answer is a line of JSON.
 *
 * <pre>
 * put FOLDER FLUSH mapped|pool BODY_SIZE QUEUES BATCH THREADS CALLS FIRST_CALLS RATE LATENCIES|-
 *                                                the first calls come before the clock starts
 * open FOLDER SEGMENT_SIZE QUEUE_FILE_ENTRIES    a store that is there; answers when everything is dispatched
 * fill FOLDER SEGMENT_SIZE QUEUE_FILE_ENTRIES BODY_SIZE QUEUES COUNT
 * read QUEUES COUNT                              everything in it, decoded, so many messages a call
 * query KEYS LATENCIES                           key-00000000 and so on, in random order
 * close
 * </pre>
 */
public final class RocketmqBench {

    private static final String TOPIC = "bench";
    private static final InetSocketAddress HOST = new InetSocketAddress("127.0.0.1", 10911);
    private static final long SPIN_NS = 200_000;
    private static final int FIRST_MESSAGES_MAX = 1 << 16;
    private static final PrintStream ANSWERS = System.out;

    public static void main(String[] arguments) {
        System.setOut(System.err);
        try {
            answer();
            System.exit(0); // the store leaves threads behind that are no daemons
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    private static void answer() throws Exception {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String order = orders.readLine(); order != null; order = orders.readLine()) {
            ANSWERS.println(obey(order.split(" ")));
            ANSWERS.flush();
        }
    }

    private static Opened opened;

    private static String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "put":
                return new Round(words).run();
            case "open":
                opened = new Opened(words[1], number(words[2]), number(words[3]));
                return "{}";
            case "fill":
                opened = new Opened(words[1], number(words[2]), number(words[3]));
                opened.fill(number(words[4]), number(words[5]), number(words[6]));
                return "{}";
            case "read":
                return opened.read(number(words[1]), number(words[2]));
            case "query":
                return opened.query(number(words[1]), words[2]);
            case "close":
                opened.store.shutdown();
                opened = null;
                return "{}";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static int number(String word) {
        return Integer.parseInt(word);
    }

    private static void check(PutMessageResult result) {
        if (!result.isOk()) {
            throw new IllegalStateException("a put gave " + result.getPutMessageStatus());
        }
    }

    /** The bytes of every body. */
    private static byte[] body(int size) {
        byte[] body = new byte[size];
        new Random(1).nextBytes(body);
        return body;
    }

    private static DefaultMessageStore start(String folder, MessageStoreConfig config) throws Exception {
        config.setStorePathRootDir(folder);
        config.setStorePathCommitLog(folder + File.separator + "commitlog");
        config.setHaListenPort(0);
        config.setCleanFileForciblyEnable(false);
        DefaultMessageStore store = new DefaultMessageStore(
            config, new BrokerStatsManager("bench", false), (a, b, c, d, e, f, g) -> { }, new BrokerConfig(),
            new ConcurrentHashMap<>());
        if (!store.load()) {
            throw new IllegalStateException(folder + " was not loaded");
        }
        store.start();
        return store;
    }

    private static void drain(DefaultMessageStore store) throws Exception {
        while (store.dispatchBehindBytes() > 0) {
            Thread.sleep(1);
        }
    }

    private static void write(long[] latenciesNs, String file) throws Exception {
        if (latenciesNs.length == 0) {
            return;
        }
        try (DataOutputStream out = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(file)))) {
            for (long latencyNs : latenciesNs) {
                out.writeLong(latencyNs);
            }
        }
    }

    private static MessageExtBrokerInner message(byte[] body, int number, int queues) {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic(TOPIC);
        message.setBody(body);
        message.setTags("tag");
        message.setKeys(String.format("key-%08d", number));
        message.setQueueId(number % queues);
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(HOST);
        message.setStoreHost(HOST);
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        message.setTagsCode("tag".hashCode());
        return message;
    }

    /** A store that stays open from one order to the next. */
    private static final class Opened {
        private final DefaultMessageStore store;

        Opened(String folder, int segmentSize, int queueFileEntries) throws Exception {
            MessageStoreConfig config = new MessageStoreConfig();
            config.setMappedFileSizeCommitLog(segmentSize);
            config.setMappedFileSizeConsumeQueue(queueFileEntries * ConsumeQueue.CQ_STORE_UNIT_SIZE);
            store = start(folder, config);
            drain(store);
        }

        void fill(int bodySize, int queues, int count) throws Exception {
            byte[] body = body(bodySize);
            for (int i = 0; i < count; i++) {
                check(store.putMessage(message(body, i, queues)));
            }
        }

        String read(int queues, int count) throws Exception {
            long messages = 0;
            for (int queueId = 0; queueId < queues; queueId++) {
                long offset = store.getMinOffsetInQueue(TOPIC, queueId);
                long end = store.getMaxOffsetInQueue(TOPIC, queueId);
                while (offset < end) {
                    GetMessageResult result = store.getMessage("bench", TOPIC, queueId, offset, count, null);
                    for (ByteBuffer buffer : result.getMessageBufferList()) {
                        messages += MessageDecoder.decode(buffer, true, false) == null ? 0 : 1;
                    }
                    result.release();
                    offset = result.getNextBeginOffset();
                }
            }
            return "{\"messages\": " + messages + "}";
        }

        String query(int count, String latencyFile) throws Exception {
            List<String> keys = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                keys.add(String.format("key-%08d", i));
            }
            Collections.shuffle(keys, new Random(1));
            long[] latenciesNs = new long[count];
            long messages = 0;
            for (int i = 0; i < count; i++) {
                long startedNs = System.nanoTime();
                QueryMessageResult result = store.queryMessage(TOPIC, keys.get(i), 32, 0, Long.MAX_VALUE);
                for (ByteBuffer buffer : result.getMessageBufferList()) {
                    MessageDecoder.decode(buffer, true, false);
                    messages++;
                }
                result.release();
                latenciesNs[i] = System.nanoTime() - startedNs;
            }
            write(latenciesNs, latencyFile);
            return "{\"messages\": " + messages + "}";
        }
    }

    /** One fresh store, filled by one load. */
    private static final class Round {
        private final String[] words;
        private final byte[] body;
        private final int queues;
        private final int batch;
        private final long rate;
        private DefaultMessageStore store;

        /** The words of a put. */
        Round(String[] words) {
            this.words = words;
            body = body(number(words[4]));
            queues = number(words[5]);
            batch = number(words[6]);
            rate = number(words[11]);
        }

        String run() throws Exception {
            int threads = number(words[7]);
            int calls = number(words[8]);
            int firstCalls = number(words[9]);
            int firstThreads = number(words[10]);
            String latencyFile = words[12];
            MessageExtBrokerInner[] firstMessages = make(Math.min(firstCalls, Math.max(FIRST_MESSAGES_MAX / batch, 1)));
            MessageExtBrokerInner[] messages = make(calls);
            store = open();
            try {
                putAll(firstMessages, firstCalls, firstThreads, new long[0]);
                drain(store);
                store.flush(); // a timer would do it a little later, beside the calls that are timed
                long[] latenciesNs = new long[latencyFile.equals("-") ? 0 : calls];
                long deviceBefore = deviceSize();
                long startedNs = System.nanoTime();
                putAll(messages, calls, threads, latenciesNs);
                long putNs = System.nanoTime() - startedNs;
                drain(store);
                long drainedNs = System.nanoTime() - startedNs;
                long deviceAfter = deviceSize();
                write(latenciesNs, latencyFile);
                String deviceSize = deviceBefore < 0 ? "null" : Long.toString(deviceAfter - deviceBefore);
                return "{\"put_ns\": " + putNs + ", \"drained_ns\": " + drainedNs + ", \"device_size\": " + deviceSize + "}";
            } finally {
                store.shutdown();
                store.destroy();
                store = null;
                System.gc(); // the pool's memory goes when its buffers are collected
            }
        }

        private DefaultMessageStore open() throws Exception {
            MessageStoreConfig config = new MessageStoreConfig();
            config.setFlushDiskType(FlushDiskType.valueOf(words[2]));
            config.setTransientStorePoolEnable(words[3].equals("pool"));
            config.setTransientStorePoolSize(2); // for five, its default, of 1 GiB each, few machines have the memory
            return start(words[1], config);
        }

        private MessageExtBrokerInner[] make(int count) {
            MessageExtBrokerInner[] messages = new MessageExtBrokerInner[count];
            for (int i = 0; i < count; i++) {
                messages[i] = batch == 1 ? message(body, i, queues) : batched(i);
            }
            return messages;
        }

        private MessageExtBatch batched(int call) {
            List<Message> members = new ArrayList<>();
            for (int i = 0; i < batch; i++) {
                Message member = new Message(TOPIC, "tag", String.format("key-%08d", call * batch + i), body);
                member.setWaitStoreMsgOK(true);
                members.add(member);
            }
            MessageExtBatch envelope = new MessageExtBatch();
            envelope.setTopic(TOPIC);
            envelope.setQueueId(call % queues);
            envelope.setBornTimestamp(System.currentTimeMillis());
            envelope.setBornHost(HOST);
            envelope.setStoreHost(HOST);
            MessageAccessor.setProperties(envelope, new HashMap<>());
            envelope.setBody(MessageDecoder.encodeMessages(members));
            return envelope;
        }

        private void putAll(MessageExtBrokerInner[] messages, int count, int threads, long[] latenciesNs) throws Exception {
            if (threads == 1) {
                put(messages, 0, count, 1, latenciesNs);
                return;
            }
            List<Thread> workers = new ArrayList<>();
            List<Throwable> errors = Collections.synchronizedList(new ArrayList<>());
            for (int i = 0; i < threads; i++) {
                int first = i;
                Thread worker = new Thread(() -> put(messages, first, count, threads, latenciesNs));
                worker.setUncaughtExceptionHandler((thread, error) -> errors.add(error));
                workers.add(worker);
            }
            workers.forEach(Thread::start);
            for (Thread worker : workers) {
                worker.join();
            }
            if (!errors.isEmpty()) {
                throw new IllegalStateException(errors.get(0));
            }
        }

        /** Every {@code step}-th from {@code first} on, as if the messages came again and again. */
        private void put(MessageExtBrokerInner[] messages, int first, int count, int step, long[] latenciesNs) {
            double pauseNs = latenciesNs.length > 0 && rate > 0 ? 1e9 * batch / rate : 0;
            long beganNs = System.nanoTime();
            for (int i = first; i < count; i += step) {
                long fromNs = System.nanoTime();
                if (pauseNs > 0) {
                    long dueNs = beganNs + (long) (pauseNs * i);
                    waitUntil(dueNs);
                    fromNs = dueNs;
                }
                put(messages[i % messages.length]);
                if (latenciesNs.length > 0) {
                    latenciesNs[i] = System.nanoTime() - fromNs;
                }
            }
        }

        private void put(MessageExtBrokerInner message) {
            check(message instanceof MessageExtBatch
                ? store.putMessages((MessageExtBatch) message)
                : store.putMessage(message));
        }

        private static void waitUntil(long dueNs) {
            for (long aheadNs = dueNs - System.nanoTime(); aheadNs > 0; aheadNs = dueNs - System.nanoTime()) {
                if (aheadNs > SPIN_NS) {
                    java.util.concurrent.locks.LockSupport.parkNanos(aheadNs - SPIN_NS);
                }
            }
        }

        /** Bytes that the device under the folder has taken; -1 where it does not tell. */
        private long deviceSize() {
            try {
                Object device = Files.getAttribute(Path.of(words[1]).getParent(), "unix:dev");
                long number = (Long) device;
                long major = (number >> 8) & 0xfff;
                long minor = (number & 0xff) | ((number >> 12) & 0xfff00);
                String stat = Files.readString(Path.of("/sys/dev/block/" + major + ":" + minor + "/stat"));
                return Long.parseLong(stat.trim().split("\\s+")[6]) * 512;
            } catch (java.io.IOException | RuntimeException error) {
                return -1;
            }
        }
    }
}
