package flightlog.interop;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.KeyBuilder;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ChangeInvisibleTimeRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ChangeInvisibleTimeResponseHeader;
import org.apache.rocketmq.remoting.protocol.header.ConsumerSendMsgBackRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.PopMessageResponseHeader;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * A whole broker over a store, named {@code store}, without a name server. It does what the lines of {@code orders} say:
 *
 * <pre>
 * topic   NAME QUEUES
 * group   NAME
 * pop     GROUP TOPIC COUNT INVISIBLE_MS NAMES    the messages take the names, of letters, one after the other
 * ack     GROUP TOPIC NAME
 * change  GROUP TOPIC NAME INVISIBLE_MS           the name has the new handle then
 * handle  NAME EXTRA_INFO                         a handle that was given elsewhere
 * back    GROUP OFFSET LEVEL                      a consumer sends back what lies at this byte of the log
 * sleep   MS
 * </pre>
 */
final class PopProgram {

    private static final long TIMEOUT_MS = 30_000;

    private final Options options;
    private final LineOutput out;
    private final Map<String, String> handles = new HashMap<>();
    private NettyRemotingClient client;
    private String address;

    PopProgram(Options options, LineOutput out) {
        this.options = options;
        this.out = out;
    }

    void run() throws Exception {
        Path orders = Path.of(options.required("orders"));
        BrokerController broker = start(options, new BrokerConfig());
        address = "127.0.0.1:" + broker.getRemotingServer().localListenPort();
        client = new NettyRemotingClient(new NettyClientConfig());
        client.start();
        for (String order : Files.readAllLines(orders, StandardCharsets.UTF_8)) {
            follow(broker, order.split("\t"));
            out.flush();
        }
        client.shutdown();
        broker.shutdown();
        out.print(new JsonLine("closed").put("at", System.currentTimeMillis()));
    }

    /** A broker on loopback, on a port of the system's choice. */
    static BrokerController start(Options options, BrokerConfig config) throws Exception {
        MessageStoreConfig store = StoreConfig.from(options);
        store.setTimerWheelEnable(true);
        config.setBrokerName("store");
        config.setBrokerIP1("127.0.0.1");
        config.setEnablePopLog(false);
        NettyServerConfig server = new NettyServerConfig();
        server.setListenPort(0);
        server.setBindAddress("127.0.0.1");
        BrokerController broker = new BrokerController(config, server, new NettyClientConfig(), store);
        if (!broker.initialize()) {
            throw new IllegalStateException("the broker did not initialize");
        }
        broker.start();
        return broker;
    }

    private void follow(BrokerController broker, String[] words) throws Exception {
        switch (words[0]) {
            case "topic":
                TopicConfig topic = new TopicConfig(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[2]));
                broker.getTopicConfigManager().updateTopicConfig(topic);
                break;
            case "group":
                SubscriptionGroupConfig group = new SubscriptionGroupConfig();
                group.setGroupName(words[1]);
                broker.getSubscriptionGroupManager().updateSubscriptionGroupConfig(group);
                break;
            case "pop":
                pop(words);
                break;
            case "ack":
                ack(words);
                break;
            case "change":
                change(words);
                break;
            case "handle":
                handles.put(words[1], words[2]);
                break;
            case "back":
                back(words);
                break;
            case "sleep":
                Thread.sleep(Long.parseLong(words[1]));
                break;
            default:
                throw new IllegalArgumentException("no order is called " + words[0]);
        }
    }

    private void back(String[] words) throws Exception {
        ConsumerSendMsgBackRequestHeader header = new ConsumerSendMsgBackRequestHeader();
        header.setGroup(words[1]);
        header.setOffset(Long.parseLong(words[2]));
        header.setDelayLevel(Integer.parseInt(words[3]));
        header.setOriginTopic("orders");
        header.setUnitMode(false);
        RemotingCommand response = call(RequestCode.CONSUMER_SEND_MSG_BACK, header);
        out.print(new JsonLine("back").put("code", response.getCode()).put("remark", response.getRemark()));
    }

    private void pop(String[] words) throws Exception {
        PopMessageRequestHeader header = new PopMessageRequestHeader();
        header.setConsumerGroup(words[1]);
        header.setTopic(words[2]);
        header.setQueueId(-1);
        header.setMaxMsgNums(Integer.parseInt(words[3]));
        header.setInvisibleTime(Long.parseLong(words[4]));
        header.setPollTime(0);
        header.setBornTime(System.currentTimeMillis());
        header.setInitMode(0);
        header.setExpType("TAG");
        header.setExp("*");
        header.setOrder(false);
        RemotingCommand response = call(RequestCode.POP_MESSAGE, header);
        List<MessageExt> found = new ArrayList<>();
        PopMessageResponseHeader answer = null;
        if (response.getBody() != null && response.getCode() == 0) {
            found = MessageDecoder.decodesBatch(java.nio.ByteBuffer.wrap(response.getBody()), true, true, false);
            answer = response.decodeCommandCustomHeader(PopMessageResponseHeader.class);
        }
        int number = 0;
        for (MessageExt message : found) {
            String handle = message.getProperty(MessageConst.PROPERTY_POP_CK);
            if (handle == null) {
                Map<String, Long> starts = ExtraInfoUtil.parseStartOffsetInfo(answer.getStartOffsetInfo());
                String key = ExtraInfoUtil.getStartOffsetInfoMapKey(message.getTopic(), message.getQueueId());
                handle = ExtraInfoUtil.buildExtraInfo(starts.get(key), answer.getPopTime(), answer.getInvisibleTime(),
                    answer.getReviveQid(), message.getTopic(), "store", message.getQueueId(), message.getQueueOffset());
            }
            String name = words[5] + number++;
            handles.put(name, handle);
            out.print(new JsonLine("popped")
                .put("name", name)
                .put("body", new String(message.getBody(), StandardCharsets.UTF_8))
                .put("topic", message.getTopic())
                .put("reconsumeTimes", message.getReconsumeTimes())
                .put("handle", handle)
                .put("at", System.currentTimeMillis()));
        }
        out.print(new JsonLine("pop").put("code", response.getCode()).put("count", found.size()));
    }

    private void ack(String[] words) throws Exception {
        String[] extra = ExtraInfoUtil.split(handles.get(words[3]));
        AckMessageRequestHeader header = new AckMessageRequestHeader();
        header.setConsumerGroup(words[1]);
        header.setTopic(realTopic(words, extra));
        header.setQueueId(ExtraInfoUtil.getQueueId(extra));
        header.setOffset(ExtraInfoUtil.getQueueOffset(extra));
        header.setExtraInfo(handles.get(words[3]));
        out.print(new JsonLine("ack").put("name", words[3]).put("code", call(RequestCode.ACK_MESSAGE, header).getCode()));
    }

    private void change(String[] words) throws Exception {
        String[] extra = ExtraInfoUtil.split(handles.get(words[3]));
        ChangeInvisibleTimeRequestHeader header = new ChangeInvisibleTimeRequestHeader();
        header.setConsumerGroup(words[1]);
        header.setTopic(realTopic(words, extra));
        header.setQueueId(ExtraInfoUtil.getQueueId(extra));
        header.setOffset(ExtraInfoUtil.getQueueOffset(extra));
        header.setExtraInfo(handles.get(words[3]));
        header.setInvisibleTime(Long.parseLong(words[4]));
        RemotingCommand response = call(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header);
        ChangeInvisibleTimeResponseHeader answer =
            response.decodeCommandCustomHeader(ChangeInvisibleTimeResponseHeader.class);
        String handle = ExtraInfoUtil.buildExtraInfo(header.getOffset(), answer.getPopTime(), answer.getInvisibleTime(),
            answer.getReviveQid(), header.getTopic(), "store", header.getQueueId(), header.getOffset());
        handles.put(words[3], handle);
        out.print(new JsonLine("change").put("name", words[3]).put("code", response.getCode()).put("handle", handle));
    }

    private static String realTopic(String[] words, String[] extra) {
        boolean isRetry = ExtraInfoUtil.getRetry(extra).equals("1");
        return isRetry ? KeyBuilder.buildPopRetryTopicV1(words[2], words[1]) : words[2];
    }

    private RemotingCommand call(int code, org.apache.rocketmq.remoting.CommandCustomHeader header) throws Exception {
        return client.invokeSync(address, RemotingCommand.createRequestCommand(code, header), TIMEOUT_MS);
    }
}
