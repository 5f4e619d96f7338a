/* Whether bytes of a mapping are in memory, and having them brought there. */
#ifndef FLIGHTLOG_RESIDENCE_H
#define FLIGHTLOG_RESIDENCE_H

#include <stddef.h>

#include "columns.h"

/*
 * Whether all of these ranges can be looked at without waiting for a device, as far as the system tells: of a file that
 * is neither ours nor writable for us Linux says yes. No for ranges that lie far apart, which would take long to tell.
 */
int are_in_memory(const struct ranges *ranges, size_t count);

/* Looks at every page of the ranges, up to the first that does not lie in the data. */
void bring_in(const struct ranges *ranges, size_t count);

#endif
