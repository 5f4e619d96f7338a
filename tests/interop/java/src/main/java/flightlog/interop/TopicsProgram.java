package flightlog.interop;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.broker.BrokerPathConfigHelper;
import org.apache.rocketmq.broker.topic.TopicConfigManager;
import org.apache.rocketmq.common.TopicConfig;

/**
 * Loads {@code config/topics.json} of the store at {@code path} with a broker's own manager and prints a line a topic;
 * then makes the topics of {@code make=NAME:READ_QUEUES:WRITE_QUEUES:PERM:ORDER,...}, deletes those of
 * {@code delete=NAME,...} with their queues, as a broker does, and persists the file.
 */
final class TopicsProgram {

    private final Options options;
    private final LineOutput out;

    TopicsProgram(Options options, LineOutput out) {
        this.options = options;
        this.out = out;
    }

    void run() throws Exception {
        Manager manager = new Manager(options.required("path"));
        List<String> make = options.list("make");
        Set<String> delete = new HashSet<>(options.list("delete"));
        boolean loaded = manager.load();
        for (TopicConfig topic : manager.getTopicConfigTable().values()) {
            out.print(new JsonLine("topic")
                .put("name", topic.getTopicName())
                .put("readQueueNums", topic.getReadQueueNums())
                .put("writeQueueNums", topic.getWriteQueueNums())
                .put("perm", topic.getPerm())
                .put("order", topic.isOrder())
                .put("filterType", topic.getTopicFilterType().name())
                .put("sysFlag", topic.getTopicSysFlag())
                .put("attributes", topic.getAttributes()));
        }
        out.print(new JsonLine("summary")
            .put("loaded", loaded)
            .put("counter", manager.getDataVersion().getCounter().get())
            .put("timestamp", manager.getDataVersion().getTimestamp()));
        for (String words : make) {
            String[] word = words.split(":");
            TopicConfig topic = new TopicConfig(
                word[0], Integer.parseInt(word[1]), Integer.parseInt(word[2]), Integer.parseInt(word[3]));
            topic.setOrder(Boolean.parseBoolean(word[4]));
            manager.getTopicConfigTable().put(word[0], topic);
            manager.getDataVersion().nextVersion();
        }
        if (!delete.isEmpty()) {
            for (String topic : delete) {
                manager.getTopicConfigTable().remove(topic);
                manager.getDataVersion().nextVersion();
            }
            StoreSession session = StoreSession.open(options);
            try (session) {
                session.awaitDispatch();
                session.store.deleteTopics(delete);
            }
        }
        if (!make.isEmpty() || !delete.isEmpty()) {
            manager.persist();
        }
    }

    private static final class Manager extends TopicConfigManager {

        private final String root;

        Manager(String root) {
            this.root = root;
        }

        @Override
        public String configFilePath() {
            return BrokerPathConfigHelper.getTopicConfigPath(root);
        }
    }
}
