package flightlog.interop;

import java.util.Map;

/** One flat JSON object in pure ASCII, built field by field in the order given. */
final class JsonLine {

    private final StringBuilder text = new StringBuilder(512);

    JsonLine(String type) {
        text.append("{\"type\":");
        quote(type);
    }

    JsonLine put(String name, String value) {
        name(name);
        if (value == null) {
            text.append("null");
        } else {
            quote(value);
        }
        return this;
    }

    JsonLine put(String name, long value) {
        name(name);
        text.append(value);
        return this;
    }

    JsonLine put(String name, boolean value) {
        name(name);
        text.append(value);
        return this;
    }

    /** An array of numbers. */
    JsonLine put(String name, Iterable<Long> values) {
        name(name);
        text.append('[');
        String separator = "";
        for (long value : values) {
            text.append(separator).append(value);
            separator = ",";
        }
        text.append(']');
        return this;
    }

    /** An object of strings. */
    JsonLine put(String name, Map<String, String> values) {
        name(name);
        text.append('{');
        String separator = "";
        for (Map.Entry<String, String> entry : values.entrySet()) {
            text.append(separator);
            quote(entry.getKey());
            text.append(':');
            quote(entry.getValue());
            separator = ",";
        }
        text.append('}');
        return this;
    }

    /** The finished line without its line end; the object can take no more fields. */
    String end() {
        return text.append('}').toString();
    }

    private void name(String name) {
        text.append(',');
        quote(name);
        text.append(':');
    }

    private void quote(String value) {
        text.append('"');
        for (int i = 0; i < value.length(); i++) {
            char unit = value.charAt(i);
            if (unit == '"' || unit == '\\') {
                text.append('\\').append(unit);
            } else if (unit >= ' ' && unit < 0x7f) {
                text.append(unit);
            } else {
                text.append(String.format("\\u%04x", (int) unit));
            }
        }
        text.append('"');
    }
}
