package flightlog.interop;

import java.io.IOException;
import java.util.TimeZone;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/** The first line of every program: RocketMQ's {@code load()} returned true, and these are the sizes in force. */
final class StoreLine {

    private StoreLine() {
    }

    static void print(LineOutput out, StoreSession session) throws IOException {
        MessageStoreConfig config = session.store.getMessageStoreConfig();
        out.print(new JsonLine("store")
            .put("tag", "rocketmq-all-5.3.3")
            .put("loaded", true)
            .put("abortFileBefore", session.abortFileBefore)
            .put("cl", config.getMappedFileSizeCommitLog())
            .put("cqBytes", config.getMappedFileSizeConsumeQueue())
            .put("slots", config.getMaxHashSlotNum())
            .put("idx", config.getMaxIndexNum())
            .put("flush", config.getFlushDiskType().name())
            .put("tz", TimeZone.getDefault().getID())
            .put("minPhyOffset", session.store.getMinPhyOffset())
            .put("maxPhyOffset", session.store.getMaxPhyOffset()));
    }
}
