/* Whether bytes of a mapping are in memory, and loading them. */
#ifndef FLIGHTLOG_RESIDENCE_H
#define FLIGHTLOG_RESIDENCE_H

#include <stddef.h>

#include "columns.h"

/*
 * Whether all of these ranges can be read without waiting for a device, as reported by the system: Linux always says
 * yes for a file that the user neither owns nor may write. 0 for ranges far apart, for which the answer would take
 * long.
 */
int are_in_memory(const struct ranges *ranges, size_t count);

/* Touches every page of the ranges, up to the first range outside of the data. */
void bring_in(const struct ranges *ranges, size_t count);

#endif
