/* encode_record fills exactly the bytes that record_size said, and the walk finds that very record in them. */
#include "fields.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct source source = {data, size};
    struct record record = take_shared(&source);
    record.queue_id = (int32_t)take(&source, 4);
    record.flag = (int32_t)take(&source, 4);
    record.reconsume_times = (int32_t)take(&source, 4);
    record.queue_offset = (int64_t)take(&source, 8);
    record.born_timestamp_ms = (int64_t)take(&source, 8);
    record.prepared_transaction_offset = (int64_t)take(&source, 8);
    const size_t shift = take(&source, 1) % 16;
    const size_t body_size = take_size(&source) % 5000, properties_size = take_size(&source);
    record.body = take_part(&source, body_size);
    record.properties = take_part(&source, properties_size);

    const char *refusal = NULL;
    const int32_t encoded_size = record_size(&record, &refusal);
    CHECK((encoded_size == 0) == (refusal != NULL));
    if (encoded_size > 0) {
        static const uint8_t untouched[16] = {[0 ... 15] = 0xEE};
        uint8_t *room = exactly(shift + (size_t)encoded_size);
        memset(room, 0xEE, shift + (size_t)encoded_size);
        encode_record(room + shift, encoded_size, &record);
        check_stands(room + shift, encoded_size, &record);
        CHECK(memcmp(room, untouched, shift) == 0);
        /* The head alone, over a copy without it. */
        const struct bytes whole = copy_of(room + shift, (size_t)encoded_size);
        memset(room + shift, 0, HEAD_SIZE);
        publish_head(room + shift, encoded_size, record.magic);
        CHECK(memcmp(room + shift, whole.data, whole.size) == 0);
        drop(whole);
        free(room);
    }
    drop(record.body);
    drop(record.properties);
    drop_shared(&record);
    return 0;
}
