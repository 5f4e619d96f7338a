package flightlog.interop;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.processor.PopReviveService;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * A whole broker over a store, named {@code store}, without a name server, and one client of it. It does what the lines
 * of {@code orders} say, of which every program has some of its own, besides
 *
 * <pre>
 * sleep    MS
 * until    MS      sleeps until the clock says so
 * restart          the broker, not the process
 * halt             the process, as it is: nothing is flushed or shut down
 * </pre>
 */
abstract class BrokerProgram {

    static final long TIMEOUT_MS = 30_000;

    final Options options;
    final NettyRemotingClient client = new NettyRemotingClient(new NettyClientConfig());
    BrokerController broker;
    private final LineOutput out;
    private String address;

    BrokerProgram(Options options, LineOutput out) {
        this.options = options;
        this.out = out;
    }

    final void run() throws Exception {
        Path orders = Path.of(options.required("orders"));
        start();
        client.start();
        for (String order : Files.readAllLines(orders, StandardCharsets.UTF_8)) {
            String[] words = order.split("\t");
            switch (words[0]) {
                case "sleep":
                    Thread.sleep(Long.parseLong(words[1]));
                    break;
                case "until":
                    Thread.sleep(Math.max(0, Long.parseLong(words[1]) - System.currentTimeMillis()));
                    break;
                case "restart":
                    stop();
                    start();
                    break;
                case "halt":
                    Runtime.getRuntime().halt(0);
                    break;
                default:
                    follow(words);
            }
        }
        client.shutdown();
        stop();
        print(new JsonLine("closed").put("at", System.currentTimeMillis()));
    }

    /** The settings of the broker. */
    abstract void configure(BrokerConfig config);

    /** Does what an order says. */
    abstract void follow(String[] words) throws Exception;

    /** On loopback, on a port of the system's choice. */
    private void start() throws Exception {
        MessageStoreConfig store = StoreConfig.from(options);
        store.setTimerWheelEnable(true);
        BrokerConfig config = new BrokerConfig();
        config.setBrokerName("store");
        config.setBrokerIP1("127.0.0.1");
        config.setEnablePopLog(false);
        config.setBrokerFastFailureEnable(false); // it refuses requests on a busy machine
        configure(config);
        NettyServerConfig server = new NettyServerConfig();
        server.setListenPort(0);
        server.setBindAddress("127.0.0.1");
        broker = new BrokerController(config, server, new NettyClientConfig(), store);
        if (!broker.initialize()) {
            throw new IllegalStateException("the broker did not initialize");
        }
        broker.start();
        address = "127.0.0.1:" + broker.getRemotingServer().localListenPort();
    }

    /** The services that revive take a second each to stop: all at once. */
    private void stop() throws InterruptedException {
        List<Thread> stopping = new ArrayList<>();
        for (PopReviveService service : broker.getAckMessageProcessor().getPopReviveServices()) {
            stopping.add(new Thread(service::shutdown));
        }
        stopping.forEach(Thread::start);
        for (Thread each : stopping) {
            each.join();
        }
        broker.shutdown();
    }

    final RemotingCommand call(int code, CommandCustomHeader header) throws Exception {
        return call(code, header, null);
    }

    final RemotingCommand call(int code, CommandCustomHeader header, byte[] body) throws Exception {
        RemotingCommand request = RemotingCommand.createRequestCommand(code, header);
        request.setBody(body);
        return client.invokeSync(address, request, TIMEOUT_MS);
    }

    /** Expects no answer. */
    final void tell(int code, CommandCustomHeader header) throws Exception {
        client.invokeOneway(address, RemotingCommand.createRequestCommand(code, header), TIMEOUT_MS);
    }

    final synchronized void print(JsonLine line) throws IOException {
        out.print(line);
        out.flush();
    }
}
