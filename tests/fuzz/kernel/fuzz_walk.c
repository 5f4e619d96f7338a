/*
 * walk_frames over any bytes: nothing outside of [start, stop) is read, rows and bytes agree, and what a walk finds does
 * not depend on how many rows it may fill at a time or on what follows.
 */
#include "rows.h"

struct walk {
    struct bytes log; /* of [start, stop), and not a byte more */
    int64_t start;
    int64_t physical_base;
    int check_crc;
};

/* The address of byte 0, of which [0, start) was never allocated. */
static const uint8_t *origin(const struct walk *walk) {
    return (const uint8_t *)((uintptr_t)walk->log.data - (uintptr_t)walk->start);
}

static enum walk_end walk_from(const struct walk *walk, int64_t *position, uint8_t *rows, size_t capacity,
                               size_t *count) {
    return walk_frames(origin(walk), position, walk->start + (int64_t)walk->log.size, walk->physical_base,
                       walk->check_crc, rows, capacity, count);
}

/* The row's record, encoded anew, is the frame that was walked over. */
static void check_encodes_to_itself(const struct walk *walk, const struct frame_row *row) {
    const uint8_t *data = origin(walk), *frame = data + row->position;
    const int32_t sys_flag = (int32_t)row->sys_flag;
    const uint8_t *after_born = frame + BORN_HOST_AT + born_host_size(sys_flag);
    const struct record record = {
        .magic = (int32_t)row->magic,
        .queue_id = (int32_t)row->queue_id,
        .flag = (int32_t)row->flag,
        .sys_flag = sys_flag,
        .reconsume_times = (int32_t)row->reconsume_times,
        .queue_offset = (int64_t)row->queue_offset,
        .physical_offset = (int64_t)row->physical_offset,
        .born_timestamp_ms = (int64_t)row->born_timestamp_ms,
        .store_timestamp_ms = (int64_t)row->store_timestamp_ms,
        .prepared_transaction_offset = (int64_t)row->prepared_transaction_offset,
        .born_host = {frame + BORN_HOST_AT, (size_t)born_host_size(sys_flag)},
        .store_host = {after_born + 8, (size_t)store_host_size(sys_flag)},
        .body = {data + row->body_position, row->body_size},
        .topic = {data + row->topic_position, row->topic_size},
        .properties = {data + row->properties_position, row->properties_size},
    };
    const char *refusal = NULL;
    const int32_t size = record_size(&record, &refusal);
    if (record.magic == MAGIC_V1 && record.topic.size > TOPIC_MAX_V1) { /* read, as RocketMQ wrote such; not written */
        CHECK(size == 0 && refusal != NULL);
        return;
    }
    CHECK(size == (int32_t)row->size);
    uint8_t *again = exactly((size_t)size);
    encode_record(again, size, &record);
    const uint32_t crc = plain_masked_crc32(record.body.data, record.body.size);
    CHECK(row->crc_ok == (!walk->check_crc || crc == row->body_crc));
    CHECK(memcmp(again, frame, BODY_CRC_AT) == 0);
    CHECK(memcmp(again + QUEUE_ID_AT, frame + QUEUE_ID_AT, (size_t)size - QUEUE_ID_AT) == 0);
    CHECK((memcmp(again + BODY_CRC_AT, frame + BODY_CRC_AT, 4) == 0) == (crc == row->body_crc));
    free(again);
}

/* The same rows, a few at a time. */
static void check_in_steps(const struct walk *walk, size_t step, const uint8_t *rows, size_t count, int64_t stopped,
                           enum walk_end ended) {
    int64_t position = walk->start;
    enum walk_end end = ROWS_FULL;
    for (size_t done = 0; end == ROWS_FULL;) {
        uint8_t *few = table_of(step);
        size_t filled = 0;
        const int64_t before = position;
        end = walk_from(walk, &position, few, step, &filled);
        check_rows(few, filled, step, before, position);
        CHECK(end != ROWS_FULL || (filled == step && position > before)); /* or it would go on for ever */
        CHECK(filled <= count - done);
        CHECK(memcmp(few, rows + done * sizeof(struct frame_row), filled * sizeof(struct frame_row)) == 0);
        done += filled;
        free(few);
        CHECK(end == ROWS_FULL || done == count);
    }
    CHECK(position == stopped && end == ended);
}

/* Of a log that ends earlier: the frames that lie in it as a whole. */
static void check_cut(const struct walk *whole, size_t size, const uint8_t *rows, size_t count) {
    struct walk cut = *whole;
    cut.log = copy_of(whole->log.data, size);
    size_t kept = 0;
    while (kept < count) {
        const struct frame_row row = row_at(rows, kept);
        if (row.position + row.size > (uint64_t)cut.start + size) break;
        kept++;
    }
    uint8_t *table = table_of(count + 1);
    int64_t position = cut.start;
    size_t filled = 0;
    const enum walk_end end = walk_from(&cut, &position, table, count + 1, &filled);
    CHECK(filled == kept && memcmp(table, rows, kept * sizeof(struct frame_row)) == 0);
    CHECK(kept == count || end == TRUNCATED || end == END); /* END: less than a head is left */
    check_rows(table, filled, count + 1, cut.start, position);
    free(table);
    drop(cut.log);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct source source = {data, size};
    struct walk walk;
    const uint8_t kind = (uint8_t)take(&source, 1);
    walk.check_crc = kind & 1;
    const size_t step = 1 + take(&source, 1) % 8;
    const size_t cut = take(&source, 2);
    walk.start = (int64_t)take(&source, 2);
    walk.physical_base = (int64_t)take(&source, 8);
    walk.log = take_log(&source, kind & 2, (int64_t)((uint64_t)walk.physical_base + (uint64_t)walk.start));

    const size_t capacity = walk.log.size / RECORD_SIZE_MIN + 1;
    uint8_t *rows = table_of(capacity);
    int64_t position = walk.start;
    size_t count = 0;
    const enum walk_end end = walk_from(&walk, &position, rows, capacity, &count);
    CHECK(end >= END && end <= BAD_OFFSET && end != ROWS_FULL);
    CHECK(position <= walk.start + (int64_t)walk.log.size);
    CHECK(end != END || walk.start + (int64_t)walk.log.size - position < HEAD_SIZE);
    check_rows(rows, count, capacity, walk.start, position);
    for (size_t i = 0; i < count; i++) {
        const struct frame_row row = row_at(rows, i);
        CHECK((uint64_t)walk.physical_base + row.position == row.physical_offset);
        check_encodes_to_itself(&walk, &row);
    }
    check_in_steps(&walk, step, rows, count, position, end);
    check_cut(&walk, cut % (walk.log.size + 1), rows, count);
    free(rows);
    drop(walk.log);
    return 0;
}
