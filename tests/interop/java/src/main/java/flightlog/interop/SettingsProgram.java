package flightlog.interop;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * What a broker makes of its {@code broker.conf}. {@code dump=FILE}: writes a file with every setting of a broker and of
 * its store at its default. {@code files=FILE}: reads the files that are named there, one a line, as a broker does at its
 * start, and prints for each the properties and the store's and the broker's settings after them.
 */
final class SettingsProgram {

    private final Options options;
    private final LineOutput out;

    SettingsProgram(Options options, LineOutput out) {
        this.options = options;
        this.out = out;
    }

    void run() throws IOException {
        String dump = options.text("dump", "");
        if (!dump.isEmpty()) {
            Properties all = MixAll.object2Properties(new BrokerConfig());
            all.putAll(MixAll.object2Properties(new MessageStoreConfig()));
            try (OutputStream stream = Files.newOutputStream(Path.of(dump))) {
                all.store(stream, "every setting");
            }
            out.print(new JsonLine("dump").put("settings", all.size()));
        }
        String files = options.text("files", "");
        if (!files.isEmpty()) {
            for (String file : Files.readAllLines(Path.of(files))) {
                read(Path.of(file));
            }
        }
    }

    private void read(Path file) throws IOException {
        Properties properties = new Properties();
        JsonLine line = new JsonLine("conf").put("path", file.toString());
        try (InputStream stream = Files.newInputStream(file)) {
            properties.load(stream);
        } catch (IllegalArgumentException malformed) {
            out.print(line.put("refused", String.valueOf(malformed.getMessage())));
            return;
        }
        MessageStoreConfig store = new MessageStoreConfig();
        BrokerConfig broker = new BrokerConfig();
        MixAll.properties2Object(properties, store);
        MixAll.properties2Object(properties, broker);
        Map<String, String> settings = texts(MixAll.object2Properties(broker));
        settings.putAll(texts(MixAll.object2Properties(store)));
        out.print(line.put("properties", texts(properties)).put("settings", settings));
    }

    private static Map<String, String> texts(Properties properties) {
        Map<String, String> texts = new TreeMap<>();
        for (String name : properties.stringPropertyNames()) {
            texts.put(name, properties.getProperty(name));
        }
        return texts;
    }
}
