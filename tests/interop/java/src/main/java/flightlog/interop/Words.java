package flightlog.interop;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Random;

/** Bodies and names made of a few words, so that stores compress well. */
final class Words {

    private static final String[] PLAIN = {
        "order", "invoice", "parcel", "customer", "warehouse", "north", "south", "received", "shipped", "returned",
        "amount", "currency", "line", "total", "pending", "confirmed"};
    private static final String[] UNICODE = {
        "\u8ba2\u5355", "\u652f\u4ed8", "\u4ed3\u5e93", "v\u00e4rde", "\u00fcbergabe", "\u03c0\u03b1\u03ba\u03ad\u03c4\u03bf",
        "\u2713", "\ud83d\ude80", "\ud83d\udce6"};
    private static final int PHRASE_WORDS = 3;
    private static final char[] HEX = "0123456789ABCDEF".toCharArray();

    private Words() {
    }

    /** Exactly {@code size} bytes of valid UTF-8: a phrase of a few words again and again, then dots. */
    static byte[] body(Random random, int size, boolean unicode) {
        StringBuilder words = new StringBuilder();
        for (int i = 0; i < PHRASE_WORDS; i++) {
            words.append(pick(random, unicode)).append(' ');
        }
        byte[] phrase = words.toString().getBytes(StandardCharsets.UTF_8);
        byte[] body = new byte[size];
        Arrays.fill(body, (byte) '.');
        for (int filled = 0; filled + phrase.length <= size; filled += phrase.length) {
            System.arraycopy(phrase, 0, body, filled, phrase.length);
        }
        return body;
    }

    static String pick(Random random, boolean unicode) {
        String[] words = unicode ? UNICODE : PLAIN;
        return words[random.nextInt(words.length)];
    }

    /** A unique key as a client makes it: 32 upper-case hex digits. */
    static String uniqueKey(Random random) {
        char[] key = new char[32];
        for (int i = 0; i < key.length; i++) {
            key[i] = HEX[random.nextInt(HEX.length)];
        }
        return new String(key);
    }

    /** A topic of exactly {@code length} ASCII characters. */
    static String topic(String prefix, int length) {
        char[] name = new char[length];
        Arrays.fill(name, 'x');
        prefix.getChars(0, Math.min(length, prefix.length()), name, 0);
        return new String(name);
    }
}
