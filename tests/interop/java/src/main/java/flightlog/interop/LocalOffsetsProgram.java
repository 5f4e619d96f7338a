package flightlog.interop;

import java.io.File;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.store.LocalFileOffsetStore;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Loads {@code PATH/GROUP/offsets.json} with a client's own store of broadcast offsets and prints a line for each of
 * {@code ask=TOPIC:BROKER_NAME:QUEUE_ID,...}; then commits {@code commit=TOPIC:BROKER_NAME:QUEUE_ID:OFFSET,...} and
 * persists the file.
 */
final class LocalOffsetsProgram {

    private final Options options;
    private final LineOutput out;

    LocalOffsetsProgram(Options options, LineOutput out) {
        this.options = options;
        this.out = out;
    }

    void run() throws Exception {
        File folder = new File(options.required("path")).getAbsoluteFile();
        // Read once, when the class is loaded. The last part of the path is the client's id.
        System.setProperty("rocketmq.client.localOffsetStoreDir", folder.getParent());
        MQClientInstance client = new MQClientInstance(new ClientConfig(), 0, folder.getName());
        LocalFileOffsetStore store = new LocalFileOffsetStore(client, options.required("group"));
        store.load();
        for (String words : options.list("ask")) {
            Map<String, String> offset = new TreeMap<>();
            offset.put(words, Long.toString(store.readOffset(queue(words.split(":")), ReadOffsetType.READ_FROM_MEMORY)));
            out.print(new JsonLine("offsets").put("offsets", offset));
        }
        Set<MessageQueue> committed = new HashSet<>();
        for (String words : options.list("commit")) {
            String[] word = words.split(":");
            committed.add(queue(word));
            store.updateOffset(queue(word), Long.parseLong(word[3]), false);
        }
        if (!committed.isEmpty()) {
            store.persistAll(committed);
        }
    }

    private static MessageQueue queue(String[] word) {
        return new MessageQueue(word[0], word[1], Integer.parseInt(word[2]));
    }
}
