package flightlog.interop;

import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import java.util.Set;

/**
 * Keys, tags and other properties of seeded messages. Of the features of {@link SeededPuts} these change them:
 *
 * <ul>
 *   <li>unicode: keys, tags and property names outside ASCII
 *   <li>collide: keys and tags whose hashes are equal though they differ, such as {@code Aa} and {@code BB}
 *   <li>keys: up to a dozen keys a message, some of them twice, and unique keys that come again
 * </ul>
 *
 * {@code keysEach} gives every message exactly so many keys, {@code kNUMBER-INDEX}, and nothing else.
 */
final class SeededProperties {

    private static final String[] TAGS = {"TagA", "TagB", "payment", "TagA || TagB", null};
    private static final String[] COLLIDING = {"Aa", "BB"};
    private static final String[] COLLIDING_LONGER = {"AaAa", "AaBB", "BBAa", "BBBB"};
    private static final int MOST_KEYS = 12;
    private static final int ONE_IN = 8;

    private final Random random;
    private final Set<String> features;
    private final int keysEach;
    private String lastUniqueKey = "first";

    SeededProperties(Random random, Set<String> features, int keysEach) {
        this.random = random;
        this.features = features;
        this.keysEach = keysEach;
    }

    Map<String, String> next(long number) {
        Map<String, String> properties = new HashMap<>();
        if (keysEach > 0) {
            properties.put("KEYS", exactKeys(number));
            return properties;
        }
        boolean unicode = draw("unicode");
        StringBuilder keys = keys(number, unicode);
        if (draw("keys")) {
            addMany(keys);
        }
        if (features.contains("collide") && random.nextInt(4) == 0) {
            keys.append(' ').append(pick(random.nextBoolean() ? COLLIDING : COLLIDING_LONGER));
        }
        if (keys.length() > 0) {
            properties.put("KEYS", keys.toString());
        }
        String tag = unicode ? Words.pick(random, true) : pick(TAGS);
        if (features.contains("collide") && random.nextInt(4) == 0) {
            tag = pick(COLLIDING);
        }
        if (tag != null) {
            properties.put("TAGS", tag);
        }
        if (random.nextInt(4) > 0) {
            lastUniqueKey = draw("keys") ? lastUniqueKey : Words.uniqueKey(random);
            properties.put("UNIQ_KEY", lastUniqueKey);
        }
        if (random.nextInt(4) == 0) {
            properties.put("WAIT", "true");
            properties.put(unicode ? "\u952e" : "region", Words.pick(random, unicode));
        }
        return properties;
    }

    private StringBuilder keys(long number, boolean unicode) {
        StringBuilder text = new StringBuilder();
        int keys = random.nextInt(4);
        if (keys > 0) {
            text.append(Words.pick(random, unicode)).append('-').append(number);
            if (keys > 1) {
                text.append(" shared-").append(random.nextInt(5));
            }
            if (keys > 2) {
                text.append("  key-").append(number);  // two blanks: the empty token between them is no key
            }
        }
        return text;
    }

    private void addMany(StringBuilder text) {
        for (int left = 1 + random.nextInt(MOST_KEYS - 1); left > 0; left--) {
            text.append(" many-").append(random.nextInt(MOST_KEYS));
        }
    }

    private String exactKeys(long number) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < keysEach; i++) {
            text.append(i == 0 ? "k" : " k").append(number).append('-').append(i);
        }
        return text.toString();
    }

    private String pick(String[] of) {
        return of[random.nextInt(of.length)];
    }

    private boolean draw(String feature) {
        return features.contains(feature) && random.nextInt(ONE_IN) == 0;
    }
}
