package flightlog.interop;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Random;
import org.apache.rocketmq.broker.RocksDBConfigManager;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.PutMessageResult;
import org.rocksdb.CompressionType;

/**
 * What a broker with {@code storeType=defaultRocksDB} keeps in RocksDB.
 *
 * <p>With {@code queues=N} a store at {@code path} (which needs {@code config.storeType=defaultRocksDB}): {@code count}
 * messages, topic {@code parcels} for every third and {@code stock} otherwise, queue {@code i % N}, body
 * {@code message %05d}; then a clean end, or with {@code halt=true} none. Without, the folders of topics, groups and
 * offsets at {@code path}, whose data version is counted up once.
 */
final class RocksDbProgram {

    private static final long MEM_TABLE_FLUSH_INTERVAL_MS = 60 * 60 * 1000L;
    private static final List<String> FOLDERS = List.of("topics", "subscriptionGroups", "consumerOffsets");

    private final Options options;
    private final LineOutput out;

    RocksDbProgram(Options options, LineOutput out) {
        this.options = options;
        this.out = out;
    }

    void run() throws Exception {
        int queues = options.number("queues", 0);
        if (queues > 0) {
            putAll(queues);
        } else {
            String path = options.required("path");
            options.refuseUnknown();
            for (String folder : FOLDERS) {
                countUp(new File(path, folder).getAbsolutePath());
            }
        }
    }

    private void putAll(int queues) throws Exception {
        int count = options.number("count", 0);
        boolean halt = options.flag("halt", false);
        StoreSession session = StoreSession.open(options);
        Random random = new Random(1);
        for (int i = 0; i < count; i++) {
            MessageExtBrokerInner message = new MessageExtBrokerInner();
            message.setTopic(i % 3 == 2 ? "parcels" : "stock");
            message.setQueueId(i % queues);
            message.setBody(String.format("message %05d", i).getBytes(StandardCharsets.UTF_8));
            message.setBornTimestamp(System.currentTimeMillis());
            Hosts.set(message, random, false);
            MessageAccessor.setProperties(message, new HashMap<>());
            message.setPropertiesString("");
            PutMessageResult result = session.store.putMessage(message);
            if (!result.isOk()) {
                throw new IllegalStateException("message " + i + ": " + result);
            }
        }
        session.awaitDispatch();
        if (halt) {
            out.flush();
            Runtime.getRuntime().halt(0);  // no shutdown hook, no flush, and the abort file stays
        }
        session.close();
    }

    private static void countUp(String path) throws Exception {
        RocksDBConfigManager manager =
            new RocksDBConfigManager(path, MEM_TABLE_FLUSH_INTERVAL_MS, CompressionType.NO_COMPRESSION);
        if (!manager.init() || !manager.loadDataVersion()) {
            throw new IllegalStateException("RocksDB in " + path + " was not opened");
        }
        manager.updateKvDataVersion();
        if (!manager.stop()) {
            throw new IllegalStateException("RocksDB in " + path + " was not closed");
        }
    }
}
