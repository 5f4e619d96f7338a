package flightlog.interop;

import java.io.BufferedOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;

/** Standard output as JSON lines. Nothing else may print there: {@code System.out} is led to standard error. */
final class LineOutput implements AutoCloseable {

    private static final int BUFFER_SIZE = 1 << 18;

    private final OutputStream out = new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), BUFFER_SIZE);

    LineOutput() {
        System.setOut(System.err);
    }

    void print(JsonLine line) throws IOException {
        out.write(line.end().getBytes(StandardCharsets.US_ASCII));
        out.write('\n');
    }

    void flush() throws IOException {
        out.flush();
    }

    @Override
    public void close() throws IOException {
        out.close();
    }
}
