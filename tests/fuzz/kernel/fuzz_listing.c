/*
 * list_rows over any log and any rows: every row that is listed is listed once, in the queue of its topic and queue id,
 * with its own offset and size; the rows apart are those that it says; a row outside of the log is told before.
 */
#include "listing_input.h"

static struct bytes topic_of(const struct listing_input *input, const struct frame_row *row) {
    return (struct bytes){input->log.data + row->topic_position, row->topic_size};
}

static int is_apart(const struct listing_input *input, const struct frame_row *row) {
    static const char mark[] = "INNER_MULTI_QUEUE_OFFSET\x01";
    const struct bytes topic = topic_of(input, row);
    const size_t size = row->properties_size;
    const uint8_t *properties = input->log.data + row->properties_position;
    if (topic.size == input->apart_topic.size && memcmp(topic.data, input->apart_topic.data, topic.size) == 0) return 1;
    for (size_t i = 0; i < topic.size; i++) {
        if (topic.data[i] >= 0x80) return 1;
    }
    for (size_t i = 0; i + sizeof mark - 1 <= size; i++) {
        if ((i == 0 || properties[i - 1] == 2) && memcmp(properties + i, mark, sizeof mark - 1) == 0) return 1;
    }
    return 0;
}

UNWATCHED static void check_listed(const struct listing_input *input) {
    const struct listing *listing = &input->listing;
    size_t apart = 0, units = 0, listed = 0, queues = 0;
    for (size_t i = 0; i < input->count; i++) {
        const struct frame_row row = row_at(input->rows.data, i);
        const int32_t transaction = (int32_t)row.sys_flag & 0xC;
        if (transaction == 4 || transaction == 0xC || row.sys_flag & 0x80 || (int32_t)row.queue_id < 0) continue;
        if (is_apart(input, &row)) {
            CHECK((size_t)column32_once(listing->row_numbers, listing->unit_count + apart++) == i);
        } else {
            listed++;
        }
    }
    CHECK(apart == listing->apart_count && listed == listing->unit_count);
    for (; queues < listing->queue_count; queues++) {
        struct listed_queue queue;
        memcpy(&queue, listing->queues + queues * sizeof queue, sizeof queue);
        const struct frame_row first = row_at(input->rows.data, queue.first_row);
        CHECK(queue.first_offset == first.queue_offset);
        for (uint32_t k = 0; k < queue.count; k++, units++) {
            const struct frame_row row = row_at(input->rows.data, (size_t)column32_once(listing->row_numbers, units));
            const struct bytes topic = topic_of(input, &row), expected = topic_of(input, &first);
            CHECK(row.queue_id == queue.queue_id && topic.size == expected.size);
            CHECK(memcmp(topic.data, expected.data, topic.size) == 0);
            const uint8_t *unit = listing->units + UNIT_SIZE * units;
            CHECK(load64_once(unit) == (int64_t)row.physical_offset && load32_once(unit + 8) == (int32_t)row.size);
            CHECK(load64_once(unit + 12) == (int32_t)load64_once(unit + 12));
            CHECK(!queue.is_run || row.queue_offset == queue.first_offset + k);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct source source = {data, size};
    struct listing_input input = take_listing(&source);
    const int are_inside = rows_are_inside(input.log, input.rows.data, input.count);
    CHECK(list_rows(input.log, input.rows.data, input.count, input.apart_topic, &input.listing));
    check_counts(&input);
    if (are_inside) check_listed(&input);
    drop_listing(&input);
    return 0;
}
