package flightlog.interop;

import java.util.Arrays;

/**
 * Starts one program: {@code write} makes or extends a store, {@code open} reads one, {@code live} holds one open and
 * puts when it is told to, {@code topics} is a broker's topics.json, {@code offsets} its consumerOffset.json, {@code groups} its subscriptionGroup.json, {@code delays} its schedule service, {@code timers} its timers, {@code pop} a whole broker that is popped from, {@code transactions} one with transactions, {@code ask} answers questions about many;
 * {@code compress} works on bodies, {@code settings} reads a broker's, {@code allocate} shares queues out, {@code filter} evaluates SQL92, {@code rocksdb} writes what a broker keeps in RocksDB. Arguments are name=value.
 */
public final class Main {

    /** {@code DefaultMessageStore.load()} answered false: RocketMQ refuses this store. */
    static final int EXIT_NOT_LOADED = 3;

    private Main() {
    }

    public static void main(String[] args) throws Exception {
        if (args.length == 0) {
            throw new IllegalArgumentException(
                "usage: (write | open | live | topics | offsets | groups | local-offsets | delays | timers | pop | transactions | ask | compress | settings | allocate | filter | rocksdb) [name=value ...]");
        }
        Options options = new Options(Arrays.asList(args).subList(1, args.length));
        int exitCode;
        try (LineOutput out = new LineOutput()) {
            exitCode = run(args[0], options, out);
        }
        // RocketMQ's statistics threads are no daemons and would keep this process alive for ever.
        System.exit(exitCode);
    }

    private static int run(String program, Options options, LineOutput out) throws Exception {
        try {
            switch (program) {
                case "write":
                    new WriteProgram(options, out).run();
                    return 0;
                case "open":
                    new OpenProgram(options, out).run();
                    return 0;
                case "live":
                    new LiveProgram(options, out).run();
                    return 0;
                case "compress":
                    new CompressProgram(options, out).run();
                    return 0;
                case "topics":
                    new TopicsProgram(options, out).run();
                    return 0;
                case "offsets":
                    new OffsetsProgram(options, out).run();
                    return 0;
                case "groups":
                    new GroupsProgram(options, out).run();
                    return 0;
                case "local-offsets":
                    new LocalOffsetsProgram(options, out).run();
                    return 0;
                case "timers":
                    new TimersProgram(options, out).run();
                    return 0;
                case "delays":
                    new DelaysProgram(options, out).run();
                    return 0;
                case "ask":
                    new AskProgram(options, out).run();
                    return 0;
                case "allocate":
                    new AllocateProgram(options, out).run();
                    return 0;
                case "filter":
                    new FilterProgram(options, out).run();
                    return 0;
                case "rocksdb":
                    new RocksDbProgram(options, out).run();
                    return 0;
                case "transactions":
                    new TransactionsProgram(options, out).run();
                    return 0;
                case "pop":
                    new PopProgram(options, out).run();
                    return 0;
                case "settings":
                    new SettingsProgram(options, out).run();
                    return 0;
                default:
                    throw new IllegalArgumentException(
                        "no program is called " + program
                            + "; there are write, open, live, topics, offsets, groups, local-offsets, delays, timers, pop, ask, compress, settings, allocate, filter and rocksdb");
            }
        } catch (StoreSession.NotLoadedException refused) {
            System.err.println(refused.getMessage());
            return EXIT_NOT_LOADED;
        } catch (Exception | Error failure) {
            failure.printStackTrace();
            return 1;
        }
    }
}
