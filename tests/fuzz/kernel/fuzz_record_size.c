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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct source source = {data, size};
    const uint8_t kind = (uint8_t)take(&source, 1);
    struct record record = {0};
    record.magic = kind & 1 ? MAGIC_V1 : kind & 2 ? MAGIC_V2 : (int32_t)take(&source, 4);
    record.sys_flag = (int32_t)take(&source, 4);
    record.born_host.size = kind & 4 ? (size_t)born_host_size(record.sys_flag) : take(&source, 1);
    record.store_host.size = kind & 8 ? (size_t)store_host_size(record.sys_flag) : take(&source, 8);
    record.topic.size = take(&source, kind & 16 ? 1 : 8);
    record.properties.size = take(&source, kind & 32 ? 2 : 8);
    record.body.size = take(&source, kind & 64 ? 4 : 8);
    const char *refusal = NULL;
    const int32_t found = record_size(&record, &refusal);
    CHECK(found == expected_size(&record));
    CHECK((found == 0) == (refusal != NULL));
    return 0;
}
