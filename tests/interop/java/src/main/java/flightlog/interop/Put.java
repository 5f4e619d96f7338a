package flightlog.interop;

import java.util.HashMap;
import java.util.List;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.PutMessageResult;

/** One call of the store's put: a single message, or a batch whose members become records of their own. */
final class Put {

    /** What it exercises, for the manifest: plain, v2, empty, noprops, batch, order. */
    final String kind;
    final int messageCount;
    /** As handed to the store; null for a batch, whose members carry their own. */
    final String propertiesString;
    private final MessageExtBrokerInner message;

    private Put(String kind, int messageCount, String propertiesString, MessageExtBrokerInner message) {
        this.kind = kind;
        this.messageCount = messageCount;
        this.propertiesString = propertiesString;
        this.message = message;
    }

    /** The message's property map becomes its property string here, as a broker does it. */
    static Put single(String kind, MessageExtBrokerInner message) {
        String properties = MessageDecoder.messageProperties2String(message.getProperties());
        message.setPropertiesString(properties);
        return new Put(kind, 1, properties, message);
    }

    /** Topic, queue, hosts, flags and properties of the envelope are shared by all members. */
    static Put batch(MessageExtBatch envelope, List<Message> members) {
        envelope.setBody(MessageDecoder.encodeMessages(members));
        if (envelope.getProperties() == null) {
            MessageAccessor.setProperties(envelope, new HashMap<>());
        }
        return new Put("batch", members.size(), null, envelope);
    }

    PutMessageResult into(DefaultMessageStore store) {
        return message instanceof MessageExtBatch
            ? store.putMessages((MessageExtBatch) message)
            : store.putMessage(message);
    }
}
