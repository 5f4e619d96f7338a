package flightlog.interop;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;

/** Key queries over all times: those asked for by a file of "topic TAB key" lines, or every key of what was read. */
final class KeyQueries {

    private static final char TAB = '\t';
    /** RocketMQ reserves room for so many answers at each query, so not simply the largest integer. */
    private static final int MAX_HITS = 100_000;
    private static final int PHYSICAL_OFFSET_POSITION = 28;

    /** As "topic TAB key", so that one set both sorts and removes duplicates. */
    private final Set<String> wanted = new TreeSet<>();

    void addFile(Path file) throws IOException {
        for (String line : Files.readString(file, StandardCharsets.UTF_8).split("\n")) {
            if (!line.isEmpty()) {
                wanted.add(line);
            }
        }
    }

    void addKeysOf(LogRecord record) {
        String topic = record.message.getTopic();
        String uniqueKey = record.message.getProperty("UNIQ_KEY");
        if (uniqueKey != null) {
            wanted.add(topic + TAB + uniqueKey);
        }
        if (record.message.getKeys() != null) {
            for (String key : record.message.getKeys().split(" ")) {
                if (!key.isEmpty()) {
                    wanted.add(topic + TAB + key);
                }
            }
        }
    }

    /** One line a key: the physical offsets that RocketMQ answers with, ascending, hash collisions included. */
    long run(DefaultMessageStore store, LineOutput out) throws IOException {
        for (String pair : wanted) {
            int tab = pair.indexOf(TAB);
            String topic = pair.substring(0, tab);
            String key = pair.substring(tab + 1);
            List<Long> offsets = query(store, topic, key, MAX_HITS, 0, Long.MAX_VALUE);
            out.print(new JsonLine("query").put("topic", topic).put("key", key).put("offsets", offsets));
        }
        return wanted.size();
    }

    /** Physical offsets, ascending. {@code begin} and {@code end} are store times, RocketMQ's own bounds. */
    static List<Long> query(DefaultMessageStore store, String topic, String key, int max, long begin, long end) {
        QueryMessageResult answer = store.queryMessage(topic, key, max, begin, end);
        List<Long> offsets = new ArrayList<>();
        for (SelectMappedBufferResult hit : answer.getMessageMapedList()) {
            offsets.add(hit.getByteBuffer().getLong(PHYSICAL_OFFSET_POSITION));
        }
        answer.release();
        return offsets;
    }
}
