package flightlog.interop;

import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/** SHA-1, as a fingerprint only. */
final class Sha1 {

    private Sha1() {
    }

    static MessageDigest start() {
        try {
            return MessageDigest.getInstance("SHA-1");
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException("every Java has SHA-1", impossible);
        }
    }

    static String hex(byte[] bytes) {
        return hexOf(start().digest(bytes));
    }

    /** Lower case. */
    static String hexOf(byte[] digest) {
        StringBuilder text = new StringBuilder(2 * digest.length);
        for (byte b : digest) {
            text.append(Character.forDigit(b >> 4 & 15, 16)).append(Character.forDigit(b & 15, 16));
        }
        return text.toString();
    }
}
