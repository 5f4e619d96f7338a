package flightlog.interop;

import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/** Arguments of the form name=value. A name that no part of the program asked for is an error, not a surprise. */
final class Options {

    private final Map<String, String> values = new TreeMap<>();
    private final Set<String> asked = new HashSet<>();

    Options(List<String> arguments) {
        for (String argument : arguments) {
            int equals = argument.indexOf('=');
            if (equals < 1) {
                throw new IllegalArgumentException("expected name=value, found " + argument);
            }
            values.put(argument.substring(0, equals), argument.substring(equals + 1));
        }
    }

    String required(String name) {
        String value = text(name, null);
        if (value == null) {
            throw new IllegalArgumentException(name + "=… is missing");
        }
        return value;
    }

    String text(String name, String otherwise) {
        asked.add(name);
        return values.getOrDefault(name, otherwise);
    }

    int number(String name, int otherwise) {
        String value = text(name, null);
        return value == null ? otherwise : Integer.parseInt(value);
    }

    long longNumber(String name, long otherwise) {
        String value = text(name, null);
        return value == null ? otherwise : Long.parseLong(value);
    }

    boolean flag(String name, boolean otherwise) {
        String value = text(name, null);
        if (value == null) {
            return otherwise;
        }
        if (!value.equals("true") && !value.equals("false")) {
            throw new IllegalArgumentException(name + " is true or false, not " + value);
        }
        return value.equals("true");
    }

    /** The parts of a comma-separated value; empty when it is absent or empty. */
    List<String> list(String name) {
        String value = text(name, "");
        return value.isEmpty() ? Collections.emptyList() : List.of(value.split(","));
    }

    /** Every PREFIXname=value as name -> value. */
    Map<String, String> startingWith(String prefix) {
        Map<String, String> found = new TreeMap<>();
        values.forEach((name, value) -> {
            if (name.startsWith(prefix)) {
                asked.add(name);
                found.put(name.substring(prefix.length()), value);
            }
        });
        return found;
    }

    /** To be called once everything has been asked for. */
    void refuseUnknown() {
        for (String name : values.keySet()) {
            if (!asked.contains(name)) {
                throw new IllegalArgumentException("no option is called " + name + "; known here: " + asked);
            }
        }
    }
}
