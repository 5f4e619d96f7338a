package flightlog.interop;

import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.broker.BrokerPathConfigHelper;
import org.apache.rocketmq.broker.offset.ConsumerOffsetManager;

/**
 * Loads {@code config/consumerOffset.json} of the store at {@code path} with a broker's own manager and prints a line a
 * topic and group; then commits {@code commit=GROUP:TOPIC:QUEUE_ID:OFFSET,...} and persists the file.
 */
final class OffsetsProgram {

    private final Options options;
    private final LineOutput out;

    OffsetsProgram(Options options, LineOutput out) {
        this.options = options;
        this.out = out;
    }

    void run() throws Exception {
        Manager manager = new Manager(options.required("path"));
        boolean loaded = manager.load();
        for (Map.Entry<String, ConcurrentMap<Integer, Long>> entry : manager.getOffsetTable().entrySet()) {
            Map<String, String> offsets = new TreeMap<>();
            entry.getValue().forEach((queueId, offset) -> offsets.put(queueId.toString(), offset.toString()));
            out.print(new JsonLine("offsets").put("name", entry.getKey()).put("offsets", offsets));
        }
        out.print(new JsonLine("summary")
            .put("loaded", loaded)
            .put("counter", manager.getDataVersion().getCounter().get())
            .put("timestamp", manager.getDataVersion().getTimestamp()));
        for (String words : options.list("commit")) {
            String[] word = words.split(":");
            // Not by commitOffset, which asks a broker's controller.
            manager.getOffsetTable()
                .computeIfAbsent(word[1] + "@" + word[0], name -> new ConcurrentHashMap<>())
                .put(Integer.parseInt(word[2]), Long.parseLong(word[3]));
            manager.getDataVersion().nextVersion();
        }
        if (!options.list("commit").isEmpty()) {
            manager.persist();
        }
    }

    private static final class Manager extends ConsumerOffsetManager {

        private final String root;

        Manager(String root) {
            this.root = root;
        }

        @Override
        public String configFilePath() {
            return BrokerPathConfigHelper.getConsumerOffsetPath(root);
        }
    }
}
