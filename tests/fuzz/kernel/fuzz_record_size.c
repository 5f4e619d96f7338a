/* record_size over any sizes, also such as no memory could hold: a record's size, or 0 with a reason, as by the rules. */
#include "fuzz.h"

static int64_t expected_size(const struct record *record) {
    if (record->magic != MAGIC_V1 && record->magic != MAGIC_V2) return 0;
    if (record->born_host.size != (record->sys_flag & 0x10 ? 20 : 8)) return 0;
    if (record->store_host.size != (record->sys_flag & 0x20 ? 20 : 8)) return 0;
    if (record->topic.size > (record->magic == MAGIC_V1 ? 127 : 32767) || record->properties.size > 32767) return 0;
    const unsigned __int128 size = (unsigned __int128)(record->magic == MAGIC_V1 ? 75 : 76) + record->born_host.size +
                                   record->store_host.size + record->topic.size + record->properties.size +
                                   record->body.size;
    return size <= 2147483647 ? (int64_t)size : 0;
}

/* A small number, one near a limit of the format or of C, or any. */
static uint64_t take_number(struct source *source) {
    static const uint64_t limits[] = {127, 32767, 2147483647, UINT32_MAX, INT64_MAX, UINT64_MAX};
    const uint8_t kind = (uint8_t)take(source, 1);
    if (kind < 64) return kind;
    if (kind == 255) return take(source, 8);
    return limits[kind % 6] + (uint64_t)(int64_t)(int16_t)take(source, 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct source source = {data, size};
    const uint8_t kind = (uint8_t)take(&source, 1);
    struct record record = {0};
    record.magic = kind & 1 ? MAGIC_V1 : kind & 2 ? MAGIC_V2 : (int32_t)take(&source, 4);
    record.sys_flag = (int32_t)take(&source, 4);
    record.born_host.size = kind & 4 ? take_number(&source) : (size_t)born_host_size(record.sys_flag);
    record.store_host.size = kind & 8 ? take_number(&source) : (size_t)store_host_size(record.sys_flag);
    record.topic.size = take_number(&source);
    record.properties.size = take_number(&source);
    record.body.size = take_number(&source);
    const char *refusal = NULL;
    const int32_t found = record_size(&record, &refusal);
    CHECK(found == expected_size(&record));
    CHECK((found == 0) == (refusal != NULL));
    return 0;
}
