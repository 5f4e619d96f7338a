/*
 * Bytes that another process changes while the kernel reads them, without another process: after every load of a field
 * that the kernel makes, one step of a script from the input is taken, which may change any byte; above all those that
 * were just read. A value that is checked, then loaded a second time and used, is so found out at once.
 *
 * Include what else is needed first, then this, then the sources of the kernel that are to be watched.
 */
#ifndef FLIGHTLOG_FUZZ_MEDDLE_H
#define FLIGHTLOG_FUZZ_MEDDLE_H

#include "byteorder.h"
#include "fuzz.h"

#define STEP_SIZE 4 /* kind, place (two bytes), value */

static struct source script;
static struct bytes victims[8];
static size_t victim_count;

static void meddle(const uint8_t *read, size_t read_size) {
    if (script.size < STEP_SIZE) return;
    const uint8_t kind = (uint8_t)take(&script, 1);
    const size_t place = take(&script, 2);
    const uint8_t value = (uint8_t)take(&script, 1);
    if (kind & 1) return;
    if (kind & 2) {
        *(uint8_t *)(uintptr_t)(read + place % read_size) = value;
        return;
    }
    const struct bytes victim = victims[(kind >> 2) % victim_count];
    if (victim.size > 0) *(uint8_t *)(uintptr_t)(victim.data + place % victim.size) = value;
}

#define WATCHED(type, load)                                \
    static inline type watched_##load(const uint8_t *at) { \
        const type value = load(at);                       \
        meddle(at, sizeof value);                          \
        return value;                                      \
    }
#define WATCHED_COLUMN(type, load)                                         \
    static inline type watched_##load(const uint8_t *column, size_t i) {   \
        const type value = load(column, i);                                \
        meddle(column + sizeof value * i, sizeof value);                   \
        return value;                                                      \
    }
WATCHED(uint8_t, load8_once)
WATCHED(int16_t, load16_once)
WATCHED(int32_t, load32_once)
WATCHED(int64_t, load64_once)
WATCHED_COLUMN(int32_t, column32_once)
WATCHED_COLUMN(int64_t, column64_once)

#define load8_once watched_load8_once
#define load16_once watched_load16_once
#define load32_once watched_load32_once
#define load64_once watched_load64_once
#define column32_once watched_column32_once
#define column64_once watched_column64_once

#endif
