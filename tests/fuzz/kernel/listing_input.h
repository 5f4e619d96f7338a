/* Rows to list, as a walk over the input makes them or as nobody does, and room for what is listed, of exactly its size. */
#ifndef FLIGHTLOG_FUZZ_LISTING_INPUT_H
#define FLIGHTLOG_FUZZ_LISTING_INPUT_H

#include "listing.h"
#include "rows.h"

#define LISTED_ROWS_MAX 64

struct listing_input {
    struct bytes log;
    struct bytes rows;
    size_t count;
    struct bytes apart_topic;
    struct listing listing;
};

UNWATCHED static struct listing_input take_listing(struct source *source) {
    struct listing_input input;
    const uint8_t kind = (uint8_t)take(source, 1);
    const size_t key_room = take(source, 1), changes = kind & 1 ? take(source, 1) % 8 : 0;
    struct bytes change = take_bytes(source, 4 * changes);
    input.apart_topic = take_bytes(source, take(source, 1) % 8);
    input.log = take_log(source, !(kind & 2), 0);
    uint8_t *rows = exactly(LISTED_ROWS_MAX * sizeof(struct frame_row));
    int64_t position = 0;
    walk_frames(input.log.data, &position, (int64_t)input.log.size, 0, 0, rows, LISTED_ROWS_MAX, &input.count);
    input.rows = copy_of(rows, input.count * sizeof(struct frame_row));
    free(rows);
    for (size_t i = 0; i < changes && input.rows.size > 0; i++) {
        const uint8_t *at = change.data + 4 * i;
        ((uint8_t *)(uintptr_t)input.rows.data)[((size_t)at[0] << 8 | at[1]) % input.rows.size] = at[2];
    }
    drop(change);
    input.listing = (struct listing){
        exactly(UNIT_SIZE * input.count), exactly(4 * input.count), exactly(sizeof(struct listed_queue) * input.count),
        exactly(4 * key_room), exactly(8 * key_room), exactly(8 * key_room), key_room, 0, 0, 0, 0, 0};
    return input;
}

static inline void drop_listing(struct listing_input *input) {
    struct listing *listing = &input->listing;
    free(listing->units), free(listing->row_numbers), free(listing->queues);
    free(listing->key_hashes), free(listing->key_offsets), free(listing->key_times);
    drop(input->log), drop(input->rows), drop(input->apart_topic);
}

/* What holds even while rows and log change. */
UNWATCHED static void check_counts(const struct listing_input *input) {
    const struct listing *listing = &input->listing;
    CHECK(listing->unit_count + listing->apart_count <= input->count);
    CHECK(listing->queue_count <= listing->unit_count && listing->batch_count <= input->count);
    size_t units = 0;
    for (size_t i = 0; i < listing->queue_count; i++) {
        struct listed_queue queue;
        memcpy(&queue, listing->queues + i * sizeof queue, sizeof queue);
        CHECK(queue.count >= 1 && queue.is_run <= 1 && (int32_t)queue.queue_id >= 0);
        CHECK(queue.first_row == (uint32_t)column32_once(listing->row_numbers, units));
        for (uint32_t k = 1; k < queue.count; k++) {
            CHECK(column32_once(listing->row_numbers, units + k - 1) < column32_once(listing->row_numbers, units + k));
        }
        units += queue.count;
    }
    CHECK(units == listing->unit_count);
    for (size_t i = 0; i < listing->unit_count + listing->apart_count; i++) {
        CHECK((size_t)column32_once(listing->row_numbers, i) < input->count);
    }
    for (size_t i = 0; i < listing->key_count && i < listing->key_room; i++) {
        CHECK(column32_once(listing->key_hashes, i) >= 0);
    }
}

#endif
