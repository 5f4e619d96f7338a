package flightlog.interop;

import java.io.File;
import java.lang.reflect.Method;
import java.util.Map;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * RocketMQ's settings from our options: {@code path}, the sizes {@code segmentSize} (bytes), {@code queueEntries},
 * {@code indexSlots}, {@code indexEntries}, {@code flush=ASYNC|SYNC}, {@code index=true|false}, and any other setting
 * as {@code config.NAME=VALUE}. What is not given keeps RocketMQ's default.
 */
final class StoreConfig {

    private static final int QUEUE_ENTRY_SIZE = 20;
    private static final int PAGE_MESSAGES = 1024;
    private static final int PAGE_BYTES = 64 << 20;
    private static final int TEN_YEARS_HOURS = 24 * 365 * 10;

    private StoreConfig() {
    }

    static MessageStoreConfig from(Options options) throws ReflectiveOperationException {
        MessageStoreConfig config = new MessageStoreConfig();
        String root = new File(options.required("path")).getAbsolutePath();
        config.setStorePathRootDir(root);
        config.setStorePathCommitLog(root + File.separator + "commitlog");

        int segmentSize = config.getMappedFileSizeCommitLog();
        int queueEntries = config.getMappedFileSizeConsumeQueue() / QUEUE_ENTRY_SIZE;
        config.setMappedFileSizeCommitLog(options.number("segmentSize", segmentSize));
        config.setMappedFileSizeConsumeQueue(options.number("queueEntries", queueEntries) * QUEUE_ENTRY_SIZE);
        config.setMaxHashSlotNum(options.number("indexSlots", config.getMaxHashSlotNum()));
        config.setMaxIndexNum(options.number("indexEntries", config.getMaxIndexNum()));
        config.setMessageIndexEnable(options.flag("index", true));
        config.setFlushDiskType(options.text("flush", "ASYNC") + "_FLUSH");

        // A master listens for replicas; port 0 lets the system choose, so that stores opened side by side do not clash.
        config.setHaListenPort(0);
        // Large pages of messages, whatever RocketMQ thinks is in memory.
        config.setMaxTransferCountOnMessageInMemory(PAGE_MESSAGES);
        config.setMaxTransferCountOnMessageInDisk(PAGE_MESSAGES);
        config.setMaxTransferBytesOnMessageInMemory(PAGE_BYTES);
        config.setMaxTransferBytesOnMessageInDisk(PAGE_BYTES);
        config.setMaxMsgsNumBatch(Integer.MAX_VALUE);
        // The cleaner must not expire anything while a test looks on, at four in the morning or on a full disk.
        config.setFileReservedTime(TEN_YEARS_HOURS);
        config.setCleanFileForciblyEnable(false);

        for (Map.Entry<String, String> setting : options.startingWith("config.").entrySet()) {
            set(config, setting.getKey(), setting.getValue());
        }
        return config;
    }

    /** Changes a setting by its name. */
    static void set(MessageStoreConfig config, String name, String value) throws ReflectiveOperationException {
        String setter = "set" + Character.toUpperCase(name.charAt(0)) + name.substring(1);
        for (Method method : MessageStoreConfig.class.getMethods()) {
            if (method.getName().equals(setter) && method.getParameterCount() == 1) {
                Class<?> wanted = method.getParameterTypes()[0];
                if (wanted == int.class) {
                    method.invoke(config, Integer.parseInt(value));
                } else if (wanted == long.class) {
                    method.invoke(config, Long.parseLong(value));
                } else if (wanted == boolean.class) {
                    method.invoke(config, Boolean.parseBoolean(value));
                } else if (wanted == String.class) {
                    method.invoke(config, value);
                } else {
                    continue;
                }
                return;
            }
        }
        throw new IllegalArgumentException("MessageStoreConfig has no setting " + name + " of a simple type");
    }
}
