/* Whether pages of a mapping are in memory, and waiting for them. */
#if !defined(_DEFAULT_SOURCE)
#define _DEFAULT_SOURCE /* for mincore() */
#endif
#include "residence.h"

#define LEAST_PAGE_SIZE 4096

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>


int are_in_memory(const struct ranges *ranges, size_t count) {
    enum { PAGES = 4096 };
    unsigned char is_there[PAGES];
    uintptr_t lowest = UINTPTR_MAX, highest = 0;
    struct bytes range;
    for (size_t i = 0; i < count; i++) {
        if (!range_at(ranges, i, &range)) return 0;
        const uintptr_t first = (uintptr_t)range.data, end = first + range.size;
        if (first < lowest) lowest = first;
        if (end > highest) highest = end;
    }
    if (highest <= lowest) return 1; /* none, or no bytes */
    const uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    lowest -= lowest % page_size;
    if ((highest - lowest - 1) / page_size >= PAGES) return 0;
    if (mincore((void *)lowest, highest - lowest, is_there) != 0) return 0;
    for (size_t i = 0; i < count; i++) {
        if (!range_at(ranges, i, &range)) return 0;
        const uintptr_t first = (uintptr_t)range.data, end = first + range.size;
        for (uintptr_t page = (first - lowest) / page_size; page * page_size < end - lowest; page++) {
            if (page >= PAGES || !(is_there[page] & 1)) return 0;
        }
    }
    return 1;
}
#else

int are_in_memory(const struct ranges *ranges, size_t count) { return (void)ranges, count == 0; }
#endif

void bring_in(const struct ranges *ranges, size_t count) {
    struct bytes range;
    for (size_t i = 0; i < count && range_at(ranges, i, &range); i++) {
        for (size_t at = 0; at < range.size; at += LEAST_PAGE_SIZE) (void)*(const volatile uint8_t *)(range.data + at);
        if (range.size > 0) (void)*(const volatile uint8_t *)(range.data + range.size - 1);
    }
}
