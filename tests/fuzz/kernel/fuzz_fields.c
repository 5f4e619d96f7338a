/*
 * fields_of over any bytes: either they are no record without its body, or its parts lie one behind the other and fill
 * them to the byte. next_pair over the same bytes: pairs lie in them, in order, and have what makes a pair. places_of over any entries: as many as lie in the log and in the room, as a plain loop adds them up.
 */
#include "fuzz.h"

#include "byteorder.h"
#include "messages.h"
#include "property_text.h"

#define UNITS_MAX 32

static void check_fields(struct bytes rest) {
    struct fields fields;
    if (!fields_of(rest, &fields)) return;
    CHECK(fields.magic == MAGIC_V1 || fields.magic == MAGIC_V2);
    CHECK(fields.body_size >= 0 && (int64_t)fields.size == (int64_t)rest.size + fields.body_size);
    const size_t hosts = (size_t)(born_host_size(fields.sys_flag) + store_host_size(fields.sys_flag));
    CHECK(fields.store_host.data == rest.data + 56 + born_host_size(fields.sys_flag));
    CHECK(fields.store_host.size == (size_t)store_host_size(fields.sys_flag));
    CHECK(fields.topic.data == rest.data + 72 + hosts + (fields.magic == MAGIC_V1 ? 1 : 2));
    CHECK(fields.properties.data == fields.topic.data + fields.topic.size + 2);
    CHECK(fields.properties.data + fields.properties.size == rest.data + rest.size);
}

static void check_pairs(struct bytes text) {
    struct bytes left = text, name, value, last = {NULL, 0};
    const uint8_t *const end = text.data + text.size, *behind = text.data;
    while (next_pair(&left, &name, &value)) {
        CHECK(name.data >= behind && name.size > 0 && value.size > 0);
        CHECK(name.data == text.data || name.data[-1] == 2);
        CHECK(value.data == name.data + name.size + 1 && value.data[-1] == 1);
        behind = value.data + value.size;
        CHECK(behind == end || (behind < end && *behind++ == 2));
        CHECK(left.data == behind && left.size == (size_t)(end - behind));
        CHECK(memchr(name.data, 1, name.size) == NULL && memchr(name.data, 2, name.size) == NULL);
        CHECK(memchr(value.data, 2, value.size) == NULL);
        if (name.size == 1 && *name.data == 'a') last = value;
    }
    CHECK(left.size == 0);
    const struct bytes found = value_of(text, "a");
    CHECK(found.data == last.data && found.size == last.size);
}

static void check_places(struct bytes units, int64_t physical_base, int64_t max_size) {
    const size_t count = units.size / UNIT_SIZE;
    uint8_t *starts = exactly(8 * count), *sizes = exactly(8 * count);
    int64_t size;
    const size_t filled = places_of(units.data, count, physical_base, max_size, starts, sizes, &size);
    CHECK(filled <= count);
    __int128 sum = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t start = 0, one = 0;
        const __int128 expected = (__int128)load64_once(units.data + UNIT_SIZE * i) - physical_base;
        const int32_t expected_size = load32_once(units.data + UNIT_SIZE * i + 8);
        const int fits = expected >= 0 && expected <= INT64_MAX && expected_size > 0 && sum + expected_size <= max_size;
        CHECK(fits == (i < filled));
        if (!fits) break;
        memcpy(&start, starts + 8 * i, 8);
        memcpy(&one, sizes + 8 * i, 8);
        CHECK(start == (int64_t)expected && one == expected_size);
        sum += one;
    }
    CHECK(sum == size);
    free(starts);
    free(sizes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct source source = {data, size};
    const uint8_t kind = (uint8_t)take(&source, 1);
    const int64_t physical_base = (int64_t)take(&source, 8), max_size = (int64_t)take(&source, 8);
    const struct bytes units = take_bytes(&source, UNIT_SIZE * (take(&source, 1) % (UNITS_MAX + 1)));
    const int32_t body_size = (int32_t)take(&source, 2);
    const struct bytes rest = take_rest(&source);
    uint8_t *const head = (uint8_t *)(uintptr_t)rest.data;
    if (kind & 1 && rest.size >= (size_t)fixed_size(MAGIC_V1, 0)) { /* else hardly any bytes would be a record */
        store32(head + MAGIC_AT, kind & 2 ? MAGIC_V1 : MAGIC_V2);
        store32(head + SYS_FLAG_AT, kind & 0x30);
        const size_t body_size_at = (size_t)(BODY_SIZE_AT + born_host_size(kind) + store_host_size(kind));
        if (rest.size >= body_size_at + 4) store32(head + body_size_at, body_size);
        store32(head + SIZE_AT, (int32_t)rest.size + body_size);
    }
    check_pairs(rest);
    check_fields(rest);
    check_places(units, physical_base, max_size);
    drop(units);
    drop(rest);
    return 0;
}
