package flightlog.interop;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.compression.CompressorFactory;

/**
 * Compresses and decompresses as RocketMQ's clients do. In {@code folder}, every {@code NAME.body} gets a
 * {@code NAME.KIND.theirs} for each kind of compression, every {@code NAME.KIND.ours} a {@code NAME.KIND.plain}.
 */
final class CompressProgram {

    private static final int LEVEL = 5;

    private final Path folder;
    private final LineOutput out;

    CompressProgram(Options options, LineOutput out) {
        this.folder = Path.of(options.required("folder"));
        this.out = out;
        options.refuseUnknown();
    }

    void run() throws IOException {
        List<Path> files;
        try (Stream<Path> found = Files.list(folder)) {
            files = found.sorted().collect(Collectors.toList());
        }
        for (Path file : files) {
            String[] name = file.getFileName().toString().split("\\.");
            if (name[1].equals("body")) {
                for (CompressionType kind : CompressionType.values()) {
                    byte[] packed = CompressorFactory.getCompressor(kind).compress(Files.readAllBytes(file), LEVEL);
                    Files.write(folder.resolve(name[0] + "." + kind.name() + ".theirs"), packed);
                }
            } else {
                CompressionType kind = CompressionType.valueOf(name[1]);
                byte[] plain = CompressorFactory.getCompressor(kind).decompress(Files.readAllBytes(file));
                Files.write(folder.resolve(name[0] + "." + kind.name() + ".plain"), plain);
            }
        }
        out.print(new JsonLine("done").put("files", files.size()));
    }
}
