package flightlog.interop;

import io.netty.channel.ChannelHandlerContext;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.broker.transaction.queue.TransactionalMessageUtil;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.remoting.netty.NettyRequestProcessor;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.header.CheckTransactionStateRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.EndTransactionRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.HeartbeatRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.SendMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.SendMessageResponseHeader;
import org.apache.rocketmq.remoting.protocol.heartbeat.HeartbeatData;
import org.apache.rocketmq.remoting.protocol.heartbeat.ProducerData;

/**
 * Transactions of a broker, and a producer of them that it checks back with. The arguments {@code timeOut}, {@code
 * checkMax} and {@code checkInterval} are the broker's, in ms. Its orders:
 *
 * <pre>
 * producer  GROUP                           connects the producer; the first check comes then
 * half      NAME GROUP TOPIC QUEUE TAG      sends a half message with the body NAME
 * end       NAME commit | rollback
 * answer    NAME commit | rollback          what a check of this body is answered with; unknown if there is none
 * settle                                    waits until every half message has an end
 * </pre>
 */
final class TransactionsProgram extends BrokerProgram implements NettyRequestProcessor {

    /** Below the time out: a broker asks about what has ended as long as its op message is gathered. */
    private static final int OP_INTERVAL_MS = 100;

    private static final long SETTLE_LIMIT_MS = 240_000;

    private final Map<String, EndTransactionRequestHeader> halves = new HashMap<>();
    private final Map<String, String> answers = new ConcurrentHashMap<>();

    TransactionsProgram(Options options, LineOutput out) {
        super(options, out);
        client.registerProcessor(RequestCode.CHECK_TRANSACTION_STATE, this, null);
    }

    @Override
    void configure(BrokerConfig config) {
        config.setTransactionTimeOut(Long.parseLong(options.required("timeOut")));
        config.setTransactionCheckMax(Integer.parseInt(options.required("checkMax")));
        config.setTransactionCheckInterval(Long.MAX_VALUE); // a check that finds no producer counts, too: see connect
        config.setTransactionOpBatchInterval(OP_INTERVAL_MS);
    }

    @Override
    void follow(String[] words) throws Exception {
        switch (words[0]) {
            case "producer":
                connect(words[1]);
                break;
            case "half":
                half(words);
                break;
            case "end":
                EndTransactionRequestHeader end = halves.get(words[1]);
                end.setCommitOrRollback(typeOf(words[2]));
                int code = call(RequestCode.END_TRANSACTION, end).getCode();
                print(new JsonLine("end").put("name", words[1]).put("code", code));
                break;
            case "answer":
                answers.put(words[1], words[2]);
                break;
            case "settle":
                settle();
                break;
            default:
                throw new IllegalArgumentException("no order is called " + words[0]);
        }
    }

    private void settle() throws Exception {
        String topic = TransactionalMessageUtil.buildHalfTopic();
        String group = TransactionalMessageUtil.buildConsumerGroup();
        long limit = System.currentTimeMillis() + SETTLE_LIMIT_MS;
        while (System.currentTimeMillis() < limit) {
            // In this order: a half message that a check put back is in the log before the offset, and in the queue later.
            long offset = broker.getConsumerOffsetManager().queryOffset(group, topic, 0);
            boolean isDispatched = broker.getMessageStore().dispatchBehindBytes() == 0;
            if (isDispatched && offset == broker.getMessageStore().getMaxOffsetInQueue(topic, 0)) {
                return;
            }
            Thread.sleep(100);
        }
        throw new IllegalStateException("half messages are still open");
    }

    private void connect(String group) throws Exception {
        ProducerData producer = new ProducerData();
        producer.setGroupName(group);
        HeartbeatData heartbeat = new HeartbeatData();
        heartbeat.setClientID("client");
        heartbeat.getProducerDataSet().add(producer);
        call(RequestCode.HEART_BEAT, new HeartbeatRequestHeader(), heartbeat.encode());
        broker.getBrokerConfig().setTransactionCheckInterval(Long.parseLong(options.required("checkInterval")));
        broker.getTransactionalMessageCheckService().wakeup();
    }

    private void half(String[] words) throws Exception {
        Map<String, String> properties = new HashMap<>();
        properties.put(MessageConst.PROPERTY_TRANSACTION_PREPARED, "true");
        properties.put(MessageConst.PROPERTY_PRODUCER_GROUP, words[2]);
        properties.put(MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX, "uniq-" + words[1]);
        properties.put(MessageConst.PROPERTY_TAGS, words[5]);
        SendMessageRequestHeader header = new SendMessageRequestHeader();
        header.setProducerGroup(words[2]);
        header.setTopic(words[3]);
        header.setDefaultTopic("TBW102");
        header.setDefaultTopicQueueNums(4);
        header.setQueueId(Integer.parseInt(words[4]));
        header.setSysFlag(MessageSysFlag.TRANSACTION_PREPARED_TYPE);
        header.setBornTimestamp(System.currentTimeMillis());
        header.setFlag(0);
        header.setProperties(MessageDecoder.messageProperties2String(properties));
        header.setReconsumeTimes(0);
        header.setUnitMode(false);
        header.setBatch(false);
        byte[] body = words[1].getBytes(StandardCharsets.UTF_8);
        RemotingCommand response = call(RequestCode.SEND_MESSAGE, header, body);
        SendMessageResponseHeader answer = response.decodeCommandCustomHeader(SendMessageResponseHeader.class);
        long physicalOffset = MessageDecoder.decodeMessageId(answer.getMsgId()).getOffset();
        halves.put(words[1], endOf(words[2], words[3], answer.getQueueOffset(), physicalOffset, "uniq-" + words[1]));
        print(new JsonLine("half").put("name", words[1]).put("code", response.getCode())
            .put("queueOffset", answer.getQueueOffset()).put("physicalOffset", physicalOffset));
    }

    private static EndTransactionRequestHeader endOf(
        String group, String topic, long queueOffset, long physicalOffset, String uniqKey) {
        EndTransactionRequestHeader end = new EndTransactionRequestHeader();
        end.setProducerGroup(group);
        end.setTopic(topic);
        end.setTranStateTableOffset(queueOffset);
        end.setCommitLogOffset(physicalOffset);
        end.setMsgId(uniqKey);
        end.setTransactionId(uniqKey);
        end.setFromTransactionCheck(false);
        return end;
    }

    @Override
    public RemotingCommand processRequest(ChannelHandlerContext ctx, RemotingCommand request) throws Exception {
        CheckTransactionStateRequestHeader check =
            request.decodeCommandCustomHeader(CheckTransactionStateRequestHeader.class);
        MessageExt message = MessageDecoder.decode(ByteBuffer.wrap(request.getBody()));
        String name = new String(message.getBody(), StandardCharsets.UTF_8);
        String answer = answers.getOrDefault(name, "unknown");
        print(new JsonLine("check").put("name", name).put("topic", message.getTopic()).put("answer", answer));
        EndTransactionRequestHeader end = endOf(message.getProperty(MessageConst.PROPERTY_PRODUCER_GROUP),
            message.getTopic(), check.getTranStateTableOffset(), check.getCommitLogOffset(), check.getTransactionId());
        end.setFromTransactionCheck(true);
        end.setCommitOrRollback(typeOf(answer));
        tell(RequestCode.END_TRANSACTION, end);
        return null;
    }

    @Override
    public boolean rejectRequest() {
        return false;
    }

    private static int typeOf(String answer) {
        switch (answer) {
            case "commit":
                return MessageSysFlag.TRANSACTION_COMMIT_TYPE;
            case "rollback":
                return MessageSysFlag.TRANSACTION_ROLLBACK_TYPE;
            default:
                return MessageSysFlag.TRANSACTION_NOT_TYPE;
        }
    }
}
