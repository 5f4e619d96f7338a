/* list_rows while the log and the rows change under it: it stays inside of the log and of what it writes to. */
#include "listing_input.h"

#include "meddle.h"

#include "listing.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct source source = {data, size};
    const struct bytes changes = take_bytes(&source, STEP_SIZE * take(&source, 1));
    script = (struct source){NULL, 0}; /* nothing changes while the input is made */
    struct listing_input input = take_listing(&source);
    script = (struct source){changes.data, changes.size};
    victims[0] = input.log, victims[1] = input.rows;
    victim_count = 2;
    CHECK(list_rows(input.log, input.rows.data, input.count, input.apart_topic, &input.listing));
    script = (struct source){NULL, 0};
    check_counts(&input);
    drop_listing(&input);
    drop(changes);
    return 0;
}
