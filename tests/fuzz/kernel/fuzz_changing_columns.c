/*
 * gather_ranges, write_texts and encode_columns while the columns change between the pass that adds up sizes and the one that copies,
 * and within either: nothing is written beyond the room that the first pass asked for.
 */
#include "columns_input.h"

#include "meddle.h"

#include "columns.c"
#include "text_columns.c"

#define ROOM_MAX ((int64_t)8 << 20) /* of at most twelve records of 64 KiB each this is far more than any sum */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct source source = {data, size};
    enum { ENCODES, GATHERS, WRITES_TEXTS };
    const uint64_t way = take(&source, 1) % 3;
    const size_t steps = take(&source, 1);
    const struct bytes changes = take_bytes(&source, STEP_SIZE * steps);
    const struct columns_input input = take_columns(&source);
    const struct record_columns columns = columns_of(&input);
    script = (struct source){changes.data, changes.size};
    victims[0] = input.body_sizes, victims[1] = input.body_starts, victims[2] = input.properties_sizes;
    victims[3] = input.properties_starts, victims[4] = input.flags, victims[5] = input.data;
    victim_count = 6;

    const char *refusal = NULL;
    const struct property_column two[] = {{input.shared.topic, columns.bodies, 0},
                                          {input.shared.topic, columns.properties, 0}};
    const int64_t whole = way == GATHERS        ? ranges_size(&columns.bodies, input.count)
                          : way == WRITES_TEXTS ? texts_size(two, 2, input.count)
                                                : columns_size(&columns, input.count, &refusal);
    CHECK(whole <= ROOM_MAX);
    if (whole >= 0) {
        uint8_t *out = exactly((size_t)whole);
        uint8_t *sizes = exactly(8 * input.count);
        if (way == GATHERS) gather_ranges(&columns.bodies, input.count, out, (size_t)whole);
        else if (way == WRITES_TEXTS) write_texts(two, 2, input.count, out, whole, sizes);
        else encode_columns(out, whole, &columns, input.count);
        free(sizes);
        free(out);
    }
    drop_columns(&input);
    drop(changes);
    return 0;
}
