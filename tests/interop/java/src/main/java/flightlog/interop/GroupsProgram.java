package flightlog.interop;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.broker.BrokerPathConfigHelper;
import org.apache.rocketmq.broker.subscription.SubscriptionGroupManager;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.subscription.RetryPolicy;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;

/**
 * Loads {@code config/subscriptionGroup.json} of the store at {@code path} with a broker's own manager and prints a line
 * a group: its settings as RocketMQ writes them, and the delays of its retry policy after 0, 1, ... {@code times}
 * redeliveries. Then takes over the settings in the file {@code set}, one JSON object a line, and persists the file.
 */
final class GroupsProgram {

    private final Options options;
    private final LineOutput out;

    GroupsProgram(Options options, LineOutput out) {
        this.options = options;
        this.out = out;
    }

    void run() throws Exception {
        Manager manager = new Manager(options.required("path"));
        boolean loaded = manager.load();
        int times = options.number("times", 0);
        for (Map.Entry<String, SubscriptionGroupConfig> entry : new TreeMap<>(manager.getSubscriptionGroupTable()).entrySet()) {
            RetryPolicy policy = entry.getValue().getGroupRetryPolicy().getRetryPolicy();
            List<Long> delays = new ArrayList<>();
            for (int i = -1; i <= times; i++) {
                delays.add(policy.nextDelayDuration(i));
            }
            out.print(new JsonLine("group")
                .put("name", entry.getKey())
                .put("settings", RemotingSerializable.toJson(entry.getValue(), false))
                .put("delays", delays));
        }
        out.print(new JsonLine("summary")
            .put("loaded", loaded)
            .put("forbidden", RemotingSerializable.toJson(manager.getForbiddenTable(), false))
            .put("counter", manager.getDataVersion().getCounter().get())
            .put("timestamp", manager.getDataVersion().getTimestamp()));
        String set = options.text("set", null);
        if (set != null) {
            for (String line : Files.readAllLines(Path.of(set), StandardCharsets.UTF_8)) {
                SubscriptionGroupConfig config = RemotingSerializable.fromJson(line, SubscriptionGroupConfig.class);
                // Not by updateSubscriptionGroupConfig, which asks a broker's controller.
                manager.getSubscriptionGroupTable().put(config.getGroupName(), config);
                manager.getDataVersion().nextVersion();
            }
            manager.persist();
        }
    }

    private static final class Manager extends SubscriptionGroupManager {

        private final String root;

        Manager(String root) {
            this.root = root;
        }

        @Override
        public String configFilePath() {
            return BrokerPathConfigHelper.getSubscriptionGroupPath(root);
        }
    }
}
