/* The positions of the fixed fields of a record; frame.py has a drawing. B, S: sizes of born and store host. */
#ifndef FLIGHTLOG_RECORD_H
#define FLIGHTLOG_RECORD_H

#include <stdint.h>

#define MAGIC_V1 ((int32_t)-626843481)    /* DAA320A7: one byte of topic length */
#define MAGIC_V2 ((int32_t)-626843477)    /* DAA320AB: two bytes */
#define MAGIC_BLANK ((int32_t)-875286124) /* CBD43194: the filler at the end of a segment */

#define BORN_HOST_V6 0x10
#define STORE_HOST_V6 0x20
/* That the body is compressed, and how. */
#define COMPRESSION_BITS 0x701
#define HOST_V4_SIZE 8 /* the address, then the port as four bytes */
#define HOST_V6_SIZE 20

#define HEAD_SIZE 8 /* size and magic */
#define SIZE_AT 0
#define MAGIC_AT (SIZE_AT + 4)
#define BODY_CRC_AT (MAGIC_AT + 4)
#define QUEUE_ID_AT (BODY_CRC_AT + 4)
#define FLAG_AT (QUEUE_ID_AT + 4)
#define QUEUE_OFFSET_AT (FLAG_AT + 4)
#define PHYSICAL_OFFSET_AT (QUEUE_OFFSET_AT + 8)
#define SYS_FLAG_AT (PHYSICAL_OFFSET_AT + 8)
#define BORN_TIMESTAMP_AT (SYS_FLAG_AT + 4)
#define BORN_HOST_AT (BORN_TIMESTAMP_AT + 8)
/* from here on: + B */
#define STORE_TIMESTAMP_AT BORN_HOST_AT
#define STORE_HOST_AT (STORE_TIMESTAMP_AT + 8)
/* from here on: + B + S */
#define RECONSUME_TIMES_AT STORE_HOST_AT
#define PREPARED_OFFSET_AT (RECONSUME_TIMES_AT + 4)
#define BODY_SIZE_AT (PREPARED_OFFSET_AT + 8)
#define BODY_AT (BODY_SIZE_AT + 4)
_Static_assert(BODY_AT + 2 * HOST_V4_SIZE == 88, "with IPv4 hosts the body size stands at 84 and the body at 88");

#define PROPERTIES_LENGTH_SIZE 2
#define TOPIC_MAX_V1 127
#define TOPIC_MAX_V2 INT16_MAX
#define PROPERTIES_MAX INT16_MAX

static inline int32_t born_host_size(int32_t sys_flag) {
    return sys_flag & BORN_HOST_V6 ? HOST_V6_SIZE : HOST_V4_SIZE;
}
static inline int32_t store_host_size(int32_t sys_flag) {
    return sys_flag & STORE_HOST_V6 ? HOST_V6_SIZE : HOST_V4_SIZE;
}
static inline int32_t topic_length_size(int32_t magic) { return magic == MAGIC_V2 ? 2 : 1; }

/* Size of a record without body, topic and properties. */
static inline int32_t fixed_size(int32_t magic, int32_t sys_flag) {
    return BODY_AT + born_host_size(sys_flag) + store_host_size(sys_flag) + topic_length_size(magic) +
           PROPERTIES_LENGTH_SIZE;
}

#endif
