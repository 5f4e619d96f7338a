package flightlog.interop;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.util.Random;
import org.apache.rocketmq.common.message.MessageExt;

/** Born and store hosts of both families; nothing is ever connected to. */
final class Hosts {

    private static final int IPV4_SIZE = 4;
    private static final int IPV6_SIZE = 16;
    private static final int STORE_PORT = 10911;
    private static final int FIRST_CLIENT_PORT = 10_000;
    private static final int CLIENT_PORTS = 50_000;

    private Hosts() {
    }

    /** IPv4 and IPv6 are drawn separately for the two hosts when {@code ipv6} is on, which gives all four mixes. */
    static void set(MessageExt message, Random random, boolean ipv6) {
        boolean bornIpv6 = ipv6 && random.nextBoolean();
        boolean storeIpv6 = ipv6 && random.nextBoolean();
        message.setBornHost(address(
            bornIpv6, random.nextInt(200) + 1, FIRST_CLIENT_PORT + random.nextInt(CLIENT_PORTS)));
        message.setStoreHost(address(storeIpv6, 1, STORE_PORT));
    }

    /** Out of the ranges set apart for documentation: 192.0.2.0/24 and 2001:db8::/32. */
    private static InetSocketAddress address(boolean ipv6, int lastByte, int port) {
        byte[] ip = new byte[ipv6 ? IPV6_SIZE : IPV4_SIZE];
        if (ipv6) {
            ip[0] = 0x20;
            ip[1] = 0x01;
            ip[2] = 0x0d;
            ip[3] = (byte) 0xb8;
        } else {
            ip[0] = (byte) 192;
            ip[2] = 2;
        }
        ip[ip.length - 1] = (byte) lastByte;
        try {
            return new InetSocketAddress(InetAddress.getByAddress(ip), port);
        } catch (UnknownHostException impossible) {
            throw new IllegalStateException("an address of " + ip.length + " bytes", impossible);
        }
    }
}
