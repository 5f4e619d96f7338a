/*
 * encode_columns: refused as a whole for what encode_record would refuse of one, else the records that encode_record
 * makes one by one; and into room of any other size nothing is written beyond it.
 */
#include "columns_input.h"

/* The size of all records, -1 if one of them cannot be. */
static int64_t expected_size(const struct columns_input *input) {
    __int128 size = 0;
    for (size_t i = 0; i < input->count; i++) {
        struct record record;
        const char *refusal;
        if (!record_of(input, i, 0, &record)) return -1;
        const int32_t one = record_size(&record, &refusal);
        if (one == 0) return -1;
        size += one;
    }
    return (__int128)input->shared.physical_offset + size > INT64_MAX ? -1 : (int64_t)size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct source source = {data, size};
    const size_t other_size = take(&source, 2);
    const struct columns_input input = take_columns(&source);
    const struct record_columns columns = columns_of(&input);

    const char *refusal = NULL;
    const int64_t whole = columns_size(&columns, input.count, &refusal);
    CHECK(whole == expected_size(&input));
    CHECK((whole < 0) == (refusal != NULL));
    if (whole >= 0) {
        uint8_t *out = exactly((size_t)whole);
        CHECK(encode_columns(out, whole, &columns, input.count));
        int64_t at = 0;
        for (size_t i = 0; i < input.count; i++) {
            struct record record;
            CHECK(record_of(&input, i, input.shared.physical_offset + at, &record));
            const int32_t one = record_size(&record, &refusal);
            check_stands(out + at, one, &record);
            at += one;
        }
        CHECK(at == whole);
        free(out);
        /* Only where all could be: of a physical offset at the very end, encode_columns relies on columns_size. */
        uint8_t *other = exactly(other_size);
        CHECK(encode_columns(other, (int64_t)other_size, &columns, input.count) == (whole == (int64_t)other_size));
        free(other);
    }
    drop_columns(&input);
    return 0;
}
